package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/store/storetest/adopted"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// service makes a service of the shared checks.
func service(t testing.TB, tables ...string) *adopted.Service {
	t.Helper()
	c := newClassic(t, strings.Join(tables, ";"))
	newAdopt := func(cfg migrate.AdoptConfig) *postgres.Adopt {
		a, err := postgres.NewAdopt(c.at, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	without, _, _ := strings.Cut(classicTable, "CREATE INDEX")
	db := stdlib.OpenDB(*c.conn.Config())
	t.Cleanup(func() { _ = db.Close() })
	return &adopted.Service{
		TB: t, DB: db, Schema: c.schema, Own: schemaOf(t, c.at),
		Dialect: adopted.Dialect{
			Outbox: []string{classicTable}, ConsumeLog: []string{classicLog}, Effects: []string{dialect().CreateEffects()}, Dollars: true,
			OutboxWithoutIndex: []string{without}, Empty: `TRUNCATE t_outbox_event RESTART IDENTITY`, Holes: []string{`SELECT nextval('t_outbox_event_id_seq') FROM generate_series(1, 3)`},
			Behind: func(id int) string { return fmt.Sprintf(`SELECT setval('t_outbox_event_id_seq', %d)`, id) },
			Later:  func(d time.Duration) string { return fmt.Sprintf("CURRENT_TIMESTAMP + interval '%d s'", d/time.Second) },
			Once:   func(insert string) string { return insert + " ON CONFLICT DO NOTHING" },
		},
		Adopt: func(ctx context.Context, cfg migrate.AdoptConfig) (migrate.AdoptPlan, error) {
			return newAdopt(cfg).Run(ctx)
		},
		Script:    func(cfg migrate.AdoptConfig) (string, error) { return newAdopt(cfg).SQL(context.Background()) },
		RunScript: func(script string) error { return runScript(c.at, script) },
		Open: func(o adopted.Options) adopted.Store {
			s := postgres.OpenForTest(t, c.at, postgres.Config{Clock: o.Clock, MaxConns: o.MaxConns})
			return adopted.Store{Inbox: s.Inbox(), Outbox: s, Log: s.Log(), Governance: s.Governance(), DB: s.DB()}
		},
		TryOpen: func(existing bool) error {
			s, err := postgres.Open(context.Background(), c.at, postgres.Config{Existing: existing})
			if err != nil {
				return err
			}
			return s.Close()
		},
		More: func() func() concurrent.LaneStore {
			s := postgres.OpenForTest(t, c.at, postgres.Config{})
			return func() concurrent.LaneStore { return s.Log() }
		},
		Inbox: func() storetest.InboxStore[*sql.Tx] { return openInboxAt(t, c.at) },
		Doctor: func() ([]doctor.Finding, error) {
			return postgres.NewDoctor(c.at, postgres.DoctorConfig{}).Check(context.Background())
		},
	}
}

// runScript runs statements as a person's client does, in one session.
func runScript(at, script string) error {
	u, err := url.Parse(at)
	if err != nil {
		return err
	}
	u.RawQuery = ""
	conn, err := pgx.Connect(context.Background(), u.String())
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(context.Background(), script, pgx.QueryExecModeSimpleProtocol)
	return err
}

func TestOfAnAdoptedTableExactlyTheRowsThatWaitAreSentInOrderAndMarked(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") != "" {
		adopted.OnlyWhatWaits(t, service, 100_000, 5000)
		return
	}
	adopted.OnlyWhatWaits(t, service, 10_000, 1000)
}

func TestARowThatAPersonSetsBackIsSentAgainUnderAnotherMessageID(t *testing.T) {
	adopted.SetBack(t, service)
}

func TestAWriteBackWhileAnotherRelayRunsIsNotSentAgain(t *testing.T) { adopted.WriteBack(t, service) }

func TestIdsThatComeLateOrWereDeletedLoseNothing(t *testing.T) { adopted.LateIDs(t, service) }

func TestKeysThatTheOldRelayRetriesBeginBlockedAndInOrder(t *testing.T) {
	adopted.RetriedKeys(t, service)
}

func TestWhatIsRefusedIsShownInTheTableAndWhatIsBrokenIsParkedAlone(t *testing.T) {
	adopted.RefusedAndBroken(t, service)
}

func TestARowThatSomebodyHoldsIsMarkedLaterAndHoldsNobodyUp(t *testing.T) {
	adopted.HeldRow(t, service)
}

func TestOfAnAdoptedTableOnlyWhatIsMarkedAsSentIsDeletedAndOnlyWhenAsked(t *testing.T) {
	adopted.OnlySentIsDeleted(t, service)
}

func TestAppendSaysWhereAnAdoptedOutboxIs(t *testing.T) { adopted.AppendSaysWhere(t, service) }

func TestAWordForRowsThatWereSentIsNotTakenForOneOfRowsThatWait(t *testing.T) {
	adopted.WordsOfSent(t, service)
}

func TestAnAdoptionThatIsKilledHalfWayGoesOn(t *testing.T) { adopted.KilledHalfWay(t, service) }

func TestAfterARestartWithIdsThatBeginAgainAPersonsResetGoesOutUnderAnotherMessageID(t *testing.T) {
	adopted.IDsBeginAgain(t, service)
}

func TestRowsBeforeTheIDOfARestartAreMarkedAsSentInAnAdoptedTableAndNotSent(t *testing.T) {
	t.Parallel()
	adopted.BeforeTheID(t, service)
}

func TestUnderLoadSettleTakesOverFromAClassicRelayAndGivesBackAndNothingIsLost(t *testing.T) {
	adopted.TakesOver(t, service)
}

func TestTwoRelaysAtOnceSendEverythingAndTheOtherOneIsReported(t *testing.T) {
	adopted.TwoAtOnce(t, service)
}

func TestARelayThatSendsTheVeryRowsThatSettleSendsIsNoticed(t *testing.T) {
	adopted.VeryRows(t, service)
}

func TestWhatOtherLanesHaveSentIsNobodyElsesWork(t *testing.T) { adopted.OtherLanes(t, service) }

func TestWhatWasSentBeforeARestartIsNobodyElsesWork(t *testing.T) { adopted.BeforeRestart(t, service) }

func TestARowThatAProgramWritesBackAfterItsOwnAttemptIsAFindingAndNoRequest(t *testing.T) {
	adopted.OwnAttempt(t, service)
}

func TestTheStatusOfWhatGoesToSeveralBrokersIsThatOfTheSlowest(t *testing.T) {
	adopted.SeveralBrokers(t, service)
}

func TestDoctorNamesAWordInTheStatusThatHasNoMeaning(t *testing.T) { adopted.StrangeWord(t, service) }

func TestDoctorReadsAPositionWithRunsOfOpenIdsAndNamesTheTableOnce(t *testing.T) {
	adopted.OpenRuns(t, service)
}
