package postgres_test

import (
	"context"
	"database/sql"
	"flag"
	"net/url"
	"testing"

	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

func dialect() concurrent.Dialect {
	return concurrent.Dialect{Serial: "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", Text: "text", Dollars: true}
}

// processes are stores on one schema, as several processes have them.
func processes(t *testing.T, n int, setup ...string) []*postgres.Store {
	t.Helper()
	return processesAt(t, postgres.DatabaseForTest(t), n, setup...)
}

func processesAt(t *testing.T, at string, n int, setup ...string) []*postgres.Store {
	t.Helper()
	stores := make([]*postgres.Store, n)
	for i := range stores {
		stores[i] = postgres.OpenForTest(t, at, postgres.Config{MaxConns: 8})
	}
	for _, query := range append([]string{dialect().CreateEffects()}, setup...) {
		if _, err := stores[0].DB().ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	return stores
}

func writeEffect(ctx context.Context, tx *sql.Tx, row string) error {
	return dialect().WriteEffect(ctx, tx, row)
}

func process(s *postgres.Store, name string) concurrent.Process {
	return concurrent.Process{
		Dialect: dialect(), Inbox: s.Inbox(), Governance: s.Governance(), Outbox: s, Log: s.Log(), DB: s.DB(), Reader: s.Reader(),
		Waiting: func(ctx context.Context) (n int, err error) {
			err = s.Reader().QueryRowContext(ctx, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`, name).Scan(&n)
			return n, err
		},
	}
}

// opened are stores that are open, as the suite sees them.
func opened(stores ...*postgres.Store) concurrent.Open {
	return func(testing.TB, int, concurrent.Options) (all []concurrent.Process) {
		for _, s := range stores {
			all = append(all, process(s, ""))
		}
		return all
	}
}

// own opens a schema of the test's own, whose connections have its name.
func own(t testing.TB, n int, o concurrent.Options) (all []concurrent.Process) {
	u, err := url.Parse(postgres.DatabaseForTest(t))
	if err != nil {
		t.Fatal("the URL can't be read")
	}
	q := u.Query()
	name := q.Get("search_path")
	q.Set("application_name", name)
	u.RawQuery = q.Encode()
	for range n {
		all = append(all, process(postgres.OpenForTest(t, u.String(), postgres.Config{MaxConns: o.MaxConns, Clock: o.Clock}), name))
	}
	return all
}

func TestEventsInTheHandsOfSeveralProcessesTakeEffectOnceAndInOrder(t *testing.T) {
	concurrent.DeliverToAll(t, own)
}

func TestEventsThatAreAppliedThroughAPoolerTakeEffectOnceAndInOrder(t *testing.T) {
	stores := processesAt(t, pooler(t, ownDatabase(t)), 2)
	if !postgres.Pooled(stores[0]) {
		t.Error("the pooler is not noticed")
	}
	concurrent.DeliverToAll(t, opened(stores...))
}

func TestWaitingEventsThatSeveralProcessesDrainTakeEffectOnceAndInOrder(t *testing.T) {
	concurrent.DrainByAll(t, own)
}

func TestWaitingEventsThatAreDrainedThroughAPoolerTakeEffectOnceAndInOrder(t *testing.T) {
	concurrent.DrainByAll(t, opened(processesAt(t, pooler(t, ownDatabase(t)), 3)...))
}

func TestDeadlocksOfHandlersCostNoEventAnAttempt(t *testing.T) { concurrent.Deadlocks(t, own) }

func TestAConnectionThatIsLostInAHandlerIsNobodysFailure(t *testing.T) {
	concurrent.LostConnection(t, own, func(ctx context.Context, from *sql.DB, tx *sql.Tx) error {
		var pid int
		if err := tx.QueryRowContext(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
			return err
		}
		_, err := from.ExecContext(ctx, `SELECT pg_terminate_backend($1, 5000)`, pid)
		return err
	})
}

func TestWhatAFailedHandlerDoesNotHoldIsKept(t *testing.T) {
	concurrent.FailedHandlers(t, own, concurrent.Failing{
		Refused: `SELECT 1 / 0`, Rows: `SELECT generate_series(1, 10000)`,
		Deferred: `ALTER TABLE t_effect ADD CONSTRAINT checked_at_the_commit UNIQUE (row_id) DEFERRABLE INITIALLY DEFERRED`,
	})
}

func TestAnOwnerThatHangsIsFencedAndItsPartitionIsTakenWhenItEnds(t *testing.T) {
	concurrent.HangingOwner(t, own)
}

var seeds = flag.Int("inbox-seeds", 4, "of how many seeds TestRandomHistoriesSettle plays histories")

func TestRandomHistoriesSettle(t *testing.T) { concurrent.Histories(t, own, 2, *seeds) }

func TestALeftOverRowThatTwoProcessesTakeOverTakesEffectOnce(t *testing.T) {
	concurrent.LeftOverRow(t, own)
}

func TestAForeignConsumerThatEndsWhatIsBeingTakenOverIsTooLate(t *testing.T) {
	concurrent.ForeignEnd(t, own)
}

func TestAnEditThatComesWhileItsFirstEventIsTriedAgainIsADuplicate(t *testing.T) {
	concurrent.EditOfTried(t, own)
}

func TestAnEditThatComesWhileItsFirstEventIsAppliedIsADuplicate(t *testing.T) {
	concurrent.EditOfApplied(t, own)
}

func TestAnEventThatComesWhileItsEditIsAppliedIsADuplicate(t *testing.T) {
	concurrent.FirstOfEdit(t, own)
}

func TestAnEditThatTwoProcessesHaveTakesEffectOnce(t *testing.T) { concurrent.SameEdit(t, own) }

func TestAnEffectKeyThatTwoProcessesHaveTakesEffectOnce(t *testing.T) {
	concurrent.SameEffectKey(t, own)
}

func TestAnEventThatComesToWaitWhileWhatItWaitsForIsDiscardedBecomesDue(t *testing.T) {
	concurrent.DiscardedMeanwhile(t, own)
}

func TestWhatAnotherProcessWorksOnIsStoredAndWaitedForByNobody(t *testing.T) {
	concurrent.TriedElsewhere(t, own)
}

func TestActsOfManyPeopleAtOnceAreOneWholeChain(t *testing.T) { concurrent.AuditChain(t, own, 10) }

func TestAnAttemptIsMadeAndCountedByOneMemberOfAGroup(t *testing.T) {
	t.Parallel()
	concurrent.Attempts(t, own, 40)
}

func TestWhatOneMemberWasGivenNoOtherIsUntilItsTimeIsOverOrItLeaves(t *testing.T) {
	t.Parallel()
	concurrent.GivenToOne(t, own)
}

func TestTwoMembersWhoseHandlersFailNowAndThenApplyEachEventOnceAndInOrder(t *testing.T) {
	concurrent.Members(t, own, 20, 15)
}

func TestRecordsThatNoTextHoldsAreDealtWithLikeOthers(t *testing.T) { concurrent.OddRecords(t, own) }

func TestIDsThatALocaleTakesForOneAreSeveralEvents(t *testing.T) { concurrent.BytewiseIDs(t, own) }

func TestRelayLettersAreSentOrDiscardedWhateverSeveralPeopleDoWhileItRuns(t *testing.T) {
	concurrent.RelayLetters(t, own)
}

func TestConsumerLettersAreAppliedOnceCompensatedOnceOrDiscardedWhateverSeveralPeopleDoWhileItRuns(t *testing.T) {
	concurrent.ConsumerLetters(t, own)
}

func TestEachOutcomeOfAHandlerIsWhatTheLogSays(t *testing.T) { concurrent.Outcomes(t, own) }

func TestWhileWhatAHandlerNeedsIsAwayNothingIsAnAttempt(t *testing.T) { concurrent.OpenBreaker(t, own) }
