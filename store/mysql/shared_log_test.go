package mysql_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/storetest/adopted"
)

// classicConsumeLog is the consume log that tutorials teach and services have.
const classicConsumeLog = `CREATE TABLE t_message_consume_log (id BIGINT AUTO_INCREMENT PRIMARY KEY, consumer_group VARCHAR(128) NOT NULL, message_id VARCHAR(64) NOT NULL, biz_key VARCHAR(64) NOT NULL,
 status VARCHAR(16) NOT NULL, consumed_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE KEY uk_group_message (consumer_group, message_id)) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci`

func TestInboxBesideForeignConsumers(t *testing.T) { adopted.InboxBeside(t, service) }

func TestWhatAForeignConsumerHasDoneIsADuplicateAndWhatItHasBegunWaitsFifteenMinutesByTheClock(t *testing.T) {
	adopted.LeftOver(t, service)
}

func TestWhatIsKeptWaitingIsInHandForForeignConsumersAndADiscardedOneIsDone(t *testing.T) {
	adopted.KeptWaiting(t, service)
}

func TestAnEventWhoseEditWasAppliedIsDoneForForeignConsumers(t *testing.T) {
	adopted.Edited(t, service)
}

func TestForeignConsumersAndSettleHaveEachOfTwoThousandMessagesTakeEffectOnce(t *testing.T) {
	adopted.SideBySide(t, service, 2000)
}

func TestAConsumeLogThatCanNotBeSharedSaysWhy(t *testing.T) {
	adopted.NotShared(t, service, map[string][]string{
		"no unique index":     {`ALTER TABLE t_message_consume_log DROP INDEX uk_group_message`},
		"(consumer_group, me": {`ALTER TABLE t_message_consume_log DROP INDEX uk_group_message, ADD UNIQUE KEY uk_short (consumer_group, message_id(20))`},
		"say what it means":   {`INSERT INTO t_message_consume_log (consumer_group, message_id, biz_key, status) VALUES ('g', 'x', '', 'OK')`},
		"must have a value":   {`ALTER TABLE t_message_consume_log ADD COLUMN tenant VARCHAR(20) NOT NULL`},
		"no classic consume":  {`ALTER TABLE t_message_consume_log RENAME COLUMN message_id TO msg`},
		"there is no consume": {`DROP TABLE t_message_consume_log`},
		"not a timestamp":     {`ALTER TABLE t_message_consume_log MODIFY consumed_at VARCHAR(40) NOT NULL`},
		"is kept by MyISAM":   {`ALTER TABLE t_message_consume_log ENGINE = MyISAM`},
		"has no word":         {`ALTER TABLE t_message_consume_log MODIFY status ENUM ('SUCCESS', 'FAILED') NOT NULL`},
	})
}

func TestAnOutboxAndAConsumeLogAreAdoptedTogetherAndTheSQLDoesTheSame(t *testing.T) {
	adopted.Together(t, service)
}

func TestToASharedLogWhoseCollationTakesTwoIDsForOneEachOfThemStillTakesEffectOnce(t *testing.T) {
	s := adopted.SharedLog(t, service, "+00:00")
	store := s.Open(adopted.Options{})
	at := time.Now().UTC()
	s.Write("Done", "SUCCESS", at, time.UTC)
	s.Write("Begun", "PROCESSING", at, time.UTC)
	s.Write("Ä", "SUCCESS", at, time.UTC)
	all := []settle.Item{adopted.Item("done", "a"), adopted.Item("begun", "b"), adopted.Item("a", "c"), adopted.Item("new", "d"), adopted.Item("NEW", "e"), adopted.Item("new ", "f"), adopted.Item("Done", "g")}
	want := fmt.Sprint([]settle.Verdict{settle.VerdictApplied, settle.VerdictApplied, settle.VerdictApplied, settle.VerdictApplied, settle.VerdictApplied, settle.VerdictApplied, settle.VerdictDuplicate})
	if got := s.Apply(store, all...); fmt.Sprint(got) != want {
		t.Errorf("verdicts are %v, want %s", got, want)
	}
	for _, it := range all {
		if got := s.Apply(store, it); got[0] != settle.VerdictDuplicate {
			t.Errorf("%q once more is %v", it.Record.Event.ID, got)
		}
	}
	// Rows of others stay as they are, whatever becomes of an event like theirs.
	dead := adopted.Item("BEGUN", "h")
	dead.Intent, dead.Class = settle.IntentDie, settle.ClassPermanent
	s.Apply(store, dead)
	if got := s.Logged("Begun"); got != "PROCESSING" {
		t.Errorf("another event's row says %q", got)
	}
}

func TestTimesOfASharedLogAreReadWhateverTheirTypeAndPrecision(t *testing.T) {
	for _, typed := range []string{"DATETIME NULL", "DATETIME(3) NOT NULL", "DATETIME(6) NOT NULL", "TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP", "TIMESTAMP(3) NULL"} {
		t.Run(typed, func(t *testing.T) {
			t.Parallel()
			s := service(t, strings.Replace(classicConsumeLog, "DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP", typed, 1), dialect().CreateEffects())
			if _, err := s.Adopt(t.Context(), migrate.AdoptConfig{ConsumeLog: s.Schema + ".t_message_consume_log", Zone: "Asia/Shanghai"}); err != nil {
				t.Fatal(err)
			}
			zone := time.FixedZone("", 8*60*60)
			if strings.HasPrefix(typed, "TIMESTAMP") {
				zone = serverZone(t, s.DB)
			}
			store := s.Open(adopted.Options{})
			s.Write("young", "PROCESSING", time.Now().Add(-14*time.Minute), zone)
			s.Write("old", "FAILED", time.Now().Add(-16*time.Minute), zone)
			if got := s.Apply(store, adopted.Item("young", "a"), adopted.Item("old", "b")); got[0] != settle.VerdictLeftOver || got[1] != settle.VerdictApplied || s.Logged("old") != "SUCCESS" {
				t.Errorf("what was begun 14 and 16 minutes ago is %v", got)
			}
			var off float64
			if err := s.DB.QueryRow(`SELECT abs(timestampdiff(SECOND, ?, consumed_at)) FROM t_message_consume_log WHERE message_id = 'old'`, time.Now().In(zone).Format("2006-01-02 15:04:05")).Scan(&off); err != nil || off > 60 {
				t.Errorf("what was taken over is %v s off, %v", off, err)
			}
		})
	}
}

// serverZone is that of the service's sessions.
func serverZone(t testing.TB, db *sql.DB) *time.Location {
	t.Helper()
	var off int
	if err := db.QueryRow(`SELECT timestampdiff(SECOND, UTC_TIMESTAMP(), CURRENT_TIMESTAMP())`).Scan(&off); err != nil {
		t.Fatal(err)
	}
	return time.FixedZone("", off)
}

func TestIDsThatASharedLogCanNotHoldAreKnownToOurOwnOnly(t *testing.T) {
	for _, charset := range []string{"ascii", "latin1", "utf8mb3"} {
		t.Run(charset, func(t *testing.T) {
			t.Parallel()
			s := service(t, strings.Replace(strings.Replace(classicConsumeLog, "utf8mb4 COLLATE utf8mb4_general_ci", charset, 1), "message_id VARCHAR(64)", "message_id CHAR(20)", 1), dialect().CreateEffects())
			if _, err := s.Adopt(t.Context(), migrate.AdoptConfig{ConsumeLog: s.Schema + ".t_message_consume_log"}); err != nil {
				t.Fatal(err)
			}
			store := s.Open(adopted.Options{})
			for _, id := range []string{"plain", "too-long-for-that-column", "space ", "😀"} {
				it := adopted.Item(id, "key of 😀")
				if got := s.Apply(store, it); got[0] != settle.VerdictApplied {
					t.Errorf("%q is %v", id, got)
				}
				if got := s.Apply(store, it); got[0] != settle.VerdictDuplicate {
					t.Errorf("%q once more is %v", id, got)
				}
			}
			if got := s.Logged("plain"); got != "SUCCESS" {
				t.Errorf("one that it holds is %q", got)
			}
		})
	}
}
