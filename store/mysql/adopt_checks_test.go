package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/store/storetest/adopted"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// service makes a service of the shared checks.
func service(t testing.TB, tables ...string) *adopted.Service {
	t.Helper()
	c := newClassic(t, strings.Join(tables, ";"))
	newAdopt := func(cfg migrate.AdoptConfig) *mysql.Adopt {
		a, err := mysql.NewAdopt(c.at, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	return &adopted.Service{
		TB: t, DB: c.db, Schema: c.database, Own: c.own,
		Dialect: adopted.Dialect{
			Outbox: []string{classicTable}, ConsumeLog: []string{classicConsumeLog}, Effects: []string{dialect().CreateEffects()},
			OutboxWithoutIndex: []string{withoutIndex()}, Empty: `TRUNCATE t_outbox_event`, Holes: []string{`ALTER TABLE t_outbox_event AUTO_INCREMENT = 6`},
			Behind: func(int) string { return "" },
			Later: func(d time.Duration) string {
				return fmt.Sprintf("CURRENT_TIMESTAMP + INTERVAL %d SECOND", d/time.Second)
			},
			Once:  func(insert string) string { return strings.Replace(insert, "INSERT", "INSERT IGNORE", 1) },
			Again: deadlock,
		},
		Adopt: func(ctx context.Context, cfg migrate.AdoptConfig) (migrate.AdoptPlan, error) {
			return newAdopt(cfg).Run(ctx)
		},
		Script:    func(cfg migrate.AdoptConfig) (string, error) { return newAdopt(cfg).SQL(context.Background()) },
		RunScript: func(script string) error { return runScript(c.at, script) },
		Open: func(o adopted.Options) adopted.Store {
			s := mysql.OpenForTest(t, c.settle(), mysql.Config{Clock: o.Clock, MaxConns: o.MaxConns})
			return adopted.Store{Inbox: s.Inbox(), Outbox: s, Log: s.Log(), Governance: s.Governance(), DB: s.DB()}
		},
		TryOpen: func(existing bool) error {
			s, err := mysql.Open(context.Background(), c.settle(), mysql.Config{Existing: existing})
			if err != nil {
				return err
			}
			return s.Close()
		},
		More: func() func() concurrent.LaneStore {
			s := mysql.OpenForTest(t, c.settle(), mysql.Config{})
			return func() concurrent.LaneStore { return s.Log() }
		},
		Inbox: func() storetest.InboxStore[*sql.Tx] { return openInbox(t, c.settle()) },
		Doctor: func() ([]doctor.Finding, error) {
			return mysql.NewDoctor(c.settle(), mysql.DoctorConfig{}).Check(context.Background())
		},
	}
}

// runScript runs statements as a person's client does, in one session.
func runScript(at, script string) error {
	u, err := url.Parse(at)
	if err != nil {
		return err
	}
	password, _ := u.User.Password()
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)%s?multiStatements=true", u.User.Username(), password, u.Host, u.Path))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(context.Background(), script)
	return err
}

// deadlock is what a program of this server tries again.
func deadlock(err error) bool {
	var e *driver.MySQLError
	return errors.As(err, &e) && (e.Number == 1213 || e.Number == 1205)
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
