package sqlite_test

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/settlemq/settle/store/sqlite"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

func dialect() concurrent.Dialect {
	return concurrent.Dialect{Serial: "INTEGER PRIMARY KEY AUTOINCREMENT", Text: "TEXT"}
}

// own opens a file of the test's own.
func own(t testing.TB, n int, o concurrent.Options) (all []concurrent.Process) {
	path := filepath.Join(t.TempDir(), "order.db")
	for range n {
		s, err := sqlite.Open(t.Context(), path, sqlite.Config{Clock: o.Clock})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		all = append(all, concurrent.Process{
			Dialect: dialect(), Inbox: s.Inbox(), Governance: s.Governance(), Outbox: s, Log: s.Log(), DB: s.DB(), Reader: s.Reader(),
		})
	}
	return all
}

func TestEventsInTheHandsOfSeveralProcessesTakeEffectOnceAndInOrder(t *testing.T) {
	concurrent.DeliverToAll(t, own)
}

func TestWaitingEventsThatSeveralProcessesDrainTakeEffectOnceAndInOrder(t *testing.T) {
	concurrent.DrainByAll(t, own)
}

var seeds = flag.Int("inbox-seeds", 12, "of how many seeds TestRandomHistoriesSettle plays histories")

func TestRandomHistoriesSettle(t *testing.T) { concurrent.Histories(t, own, 1, *seeds) }

func TestActsOfManyPeopleAtOnceAreOneWholeChain(t *testing.T) { concurrent.AuditChain(t, own, 5) }

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
