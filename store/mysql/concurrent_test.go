package mysql_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

func dialect() concurrent.Dialect {
	return concurrent.Dialect{Serial: "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY", Text: "VARCHAR(250)"}
}

// processes are stores on one database, as several processes have them.
func processes(t *testing.T, n int, setup ...string) []*mysql.Store {
	t.Helper()
	return processesAt(t, mysql.DatabaseForTest(t), n, setup...)
}

func processesAt(t *testing.T, at string, n int, setup ...string) []*mysql.Store {
	t.Helper()
	stores := make([]*mysql.Store, n)
	for i := range stores {
		stores[i] = mysql.OpenForTest(t, at, mysql.Config{MaxConns: 8})
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

const waitsHere = `SELECT count(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()`

func process(s *mysql.Store) concurrent.Process {
	return concurrent.Process{
		Dialect: dialect(), Inbox: s.Inbox(), Governance: s.Governance(), Outbox: s, Log: s.Log(), DB: s.DB(), Reader: s.Reader(),
		// The server shows the same until nobody has asked for 0.1 s.
		Waiting: func(ctx context.Context) (n int, err error) {
			time.Sleep(120 * time.Millisecond)
			err = s.Reader().QueryRowContext(ctx, waitsHere).Scan(&n)
			return n, err
		},
	}
}

// own opens a database of the test's own.
func own(t testing.TB, n int, o concurrent.Options) (all []concurrent.Process) {
	at := mysql.DatabaseForTest(t)
	for range n {
		all = append(all, process(mysql.OpenForTest(t, at, mysql.Config{MaxConns: o.MaxConns, Clock: o.Clock})))
	}
	return all
}

func TestEventsInTheHandsOfSeveralProcessesTakeEffectOnceAndInOrder(t *testing.T) {
	concurrent.DeliverToAll(t, own)
}

func TestWaitingEventsThatSeveralProcessesDrainTakeEffectOnceAndInOrder(t *testing.T) {
	concurrent.DrainByAll(t, own)
}

func TestDeadlocksOfHandlersCostNoEventAnAttempt(t *testing.T) { concurrent.Deadlocks(t, own) }

func TestAConnectionThatIsLostInAHandlerIsNobodysFailure(t *testing.T) {
	concurrent.LostConnection(t, own, func(ctx context.Context, from *sql.DB, tx *sql.Tx) error {
		var id int
		if err := tx.QueryRowContext(ctx, `SELECT CONNECTION_ID()`).Scan(&id); err != nil {
			return err
		}
		_, err := from.ExecContext(ctx, fmt.Sprint("KILL ", id))
		return err
	})
}

func TestWhatAFailedHandlerDoesNotHoldIsKept(t *testing.T) {
	concurrent.FailedHandlers(t, own, concurrent.Failing{Refused: `TRUNCATE t_effect`, Rows: `SELECT table_name FROM information_schema.tables`})
}

func TestAnOwnerThatHangsIsFencedAndItsPartitionIsTakenWhenItEnds(t *testing.T) {
	concurrent.HangingOwner(t, own)
}

var seeds = flag.Int("inbox-seeds", 1, "of how many seeds TestRandomHistoriesSettle plays histories")

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

func TestActsOfManyPeopleAtOnceAreOneWholeChain(t *testing.T) { concurrent.AuditChain(t, own, 5) }

func TestAnAttemptIsMadeAndCountedByOneMemberOfAGroup(t *testing.T) {
	t.Parallel()
	concurrent.Attempts(t, own, 16)
}

func TestWhatOneMemberWasGivenNoOtherIsUntilItsTimeIsOverOrItLeaves(t *testing.T) {
	t.Parallel()
	concurrent.GivenToOne(t, own)
}

func TestTwoMembersWhoseHandlersFailNowAndThenApplyEachEventOnceAndInOrder(t *testing.T) {
	concurrent.Members(t, own, 10, 10)
}

func TestRecordsThatNoTextHoldsAreDealtWithLikeOthers(t *testing.T) { concurrent.OddRecords(t, own) }

func TestIDsThatOnlyBytesTellApartEachTakeEffect(t *testing.T) { concurrent.BytewiseIDs(t, own) }

func TestRelayLettersAreSentOrDiscardedWhateverSeveralPeopleDoWhileItRuns(t *testing.T) {
	concurrent.RelayLetters(t, own)
}

func TestConsumerLettersAreAppliedOnceCompensatedOnceOrDiscardedWhateverSeveralPeopleDoWhileItRuns(t *testing.T) {
	concurrent.ConsumerLetters(t, own)
}

func TestEachOutcomeOfAHandlerIsWhatTheLogSays(t *testing.T) { concurrent.Outcomes(t, own) }

func TestWhileWhatAHandlerNeedsIsAwayNothingIsAnAttempt(t *testing.T) { concurrent.OpenBreaker(t, own) }
