package adopted

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/storetest"
)

// SharedLog makes a service with a consume log and no outbox, and adopts it.
func SharedLog(t testing.TB, open Open, zone string) *Service {
	t.Helper()
	s := withLog(t, open)
	p, err := s.Adopt(context.Background(), migrate.AdoptConfig{ConsumeLog: s.log(), Zone: zone})
	if err != nil || p.ConsumeLog == "" || p.Table != "" {
		t.Fatalf("adopting the consume log: %v, %+v", err, p)
	}
	return s
}

func withLog(t testing.TB, open Open) *Service {
	t.Helper()
	d := open(t)
	for _, statement := range slices.Concat(d.ConsumeLog, d.Effects) {
		d.exec(statement)
	}
	return d
}

func (s *Service) log() string { return s.Schema + ".t_message_consume_log" }

const logRow = `INSERT INTO t_message_consume_log (consumer_group, message_id, biz_key, status, consumed_at) VALUES (?, ?, 'b', ?, '%s')`

// Write writes a row of the shared log as a foreign consumer of group g does.
func (s *Service) Write(id, status string, at time.Time, zone *time.Location) {
	s.Helper()
	s.exec(fmt.Sprintf(logRow, stamp(at, zone)), "g", id, status)
}

// Logged is how a message stands in the shared log; empty where it has no row.
func (s *Service) Logged(id string) string {
	s.Helper()
	return strings.Join(s.texts(`SELECT status FROM t_message_consume_log WHERE consumer_group = 'g' AND message_id = ?`, id), " and ")
}

func (s *Service) effects() []string {
	s.Helper()
	return s.texts(`SELECT row_id FROM t_effect ORDER BY id`)
}

func (s *Service) effect(ctx context.Context, tx *sql.Tx, id string) error {
	_, err := tx.ExecContext(ctx, s.sql(`INSERT INTO `+s.Schema+`.t_effect (row_id) VALUES (?)`), id)
	return err
}

// Item is a message with an id and a key.
func Item(id, key string) settle.Item {
	return settle.Item{Attempt: 1, Record: settle.Record{Event: &settle.Event{ID: id, Type: "x", AggregateType: "order", AggregateID: key, AppendedAt: time.Now(), Payload: []byte(`{}`)}}}
}

// Apply applies items of group g and returns their verdicts. A message has the
// effect of a row.
func (s *Service) Apply(store Store, items ...settle.Item) (verdicts []settle.Verdict) {
	s.Helper()
	rs, err := store.Inbox.Apply(context.Background(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
		return s.effect(ctx, tx, items[i].Record.Event.ID)
	})
	if err != nil {
		s.Fatal(err)
	}
	for _, r := range rs {
		verdicts = append(verdicts, r.Verdict)
	}
	return verdicts
}

// InboxBeside checks that every rule of the inbox holds where foreign consumers
// share its log.
func InboxBeside(t *testing.T, open Open) {
	storetest.RunInbox(t, func(t testing.TB) storetest.InboxStore[*sql.Tx] {
		s := SharedLog(t, open, "Asia/Shanghai")
		is := s.Inbox()
		is.LeaveOver = func(ctx context.Context, group, eventID, status string, at time.Time) error {
			_, err := s.DB.ExecContext(ctx, s.sql(fmt.Sprintf(logRow, stamp(at, shanghai))), group, eventID, status)
			return err
		}
		is.Inbox = ownerForgets{is.Inbox, s}
		return is
	})
}

// ownerForgets is an inbox beside which the owner of the shared log deletes what
// is old as well: Settle never does, and so would know it longer.
type ownerForgets struct {
	settle.Inbox[*sql.Tx]
	s *Service
}

const ownerForgetsToo = `DELETE FROM t_message_consume_log WHERE NOT EXISTS
(SELECT 1 FROM %s.t_message_consume_log l WHERE l.consumer_group = t_message_consume_log.consumer_group AND l.event_id = t_message_consume_log.message_id)`

func (o ownerForgets) Forget(ctx context.Context, group string, before time.Time, limit int) (int, error) {
	n, err := o.Inbox.Forget(ctx, group, before, limit)
	if err == nil {
		_, err = o.s.DB.ExecContext(ctx, fmt.Sprintf(ownerForgetsToo, o.s.Own))
	}
	return n, err
}

// LeftOver checks what becomes of rows of foreign consumers, by the clock.
func LeftOver(t *testing.T, open Open) {
	s := SharedLog(t, open, "Asia/Shanghai")
	begun := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	now := begun
	var mu sync.Mutex
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	store := s.Open(Options{Clock: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }})
	for id, status := range map[string]string{"done": "SUCCESS", "begun": "PROCESSING", "failed": "FAILED"} {
		s.Write(id, status, begun, shanghai)
	}
	got := s.Apply(store, Item("done", "a"), Item("begun", "b"), Item("failed", "c"), Item("new", "d"))
	want := []settle.Verdict{settle.VerdictDuplicate, settle.VerdictLeftOver, settle.VerdictLeftOver, settle.VerdictApplied}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("verdicts are %v, want %v", got, want)
	}
	for id, want := range map[string]string{"done": "SUCCESS", "begun": "PROCESSING", "failed": "FAILED", "new": "SUCCESS"} {
		if got := s.Logged(id); got != want {
			t.Errorf("%s is %s in the shared log, want %s", id, got, want)
		}
	}
	retry := func() []settle.Verdict {
		due, err := store.Inbox.Due(t.Context(), "g", 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(due.Items) == 0 {
			return nil
		}
		return s.Apply(store, due.Items...)
	}
	pass(14 * time.Minute)
	if got := retry(); got != nil {
		t.Errorf("after 14 minutes what is left over is %v", got)
	}
	// The foreign consumer of one of them is alive, and ends.
	s.exec(`UPDATE t_message_consume_log SET status = 'SUCCESS' WHERE message_id = 'failed'`)
	pass(2 * time.Minute)
	if got := retry(); len(got) != 2 || got[0]+got[1] != settle.VerdictApplied+settle.VerdictDuplicate {
		t.Errorf("after 16 minutes what is left over is %v", got)
	}
	at := s.texts(`SELECT CAST(consumed_at AS CHAR(19)) FROM t_message_consume_log WHERE message_id = 'begun'`)
	if effects := fmt.Sprint(s.effects()); effects != "[new begun]" || fmt.Sprint(at) != "[2026-03-04 13:22:07]" || s.Logged("begun") != "SUCCESS" {
		t.Errorf("effects are %s; the one taken over is %s at %s", effects, s.Logged("begun"), at)
	}
}

// KeptWaiting checks what foreign consumers see of what Settle keeps waiting.
func KeptWaiting(t *testing.T, open Open) {
	s := SharedLog(t, open, "UTC")
	store := s.Open(Options{})
	parked, dead := Item("parked", "a"), Item("dead", "b")
	parked.Intent, parked.Class, parked.NextAt = settle.IntentPark, settle.ClassHandler, time.Now().Add(-time.Minute)
	dead.Intent, dead.Class = settle.IntentDie, settle.ClassPermanent
	s.Apply(store, parked, dead, Item("behind", "b"))
	for _, id := range []string{"parked", "dead", "behind"} {
		if got := s.Logged(id); got != "PROCESSING" {
			t.Errorf("%s is %q in the shared log", id, got)
		}
	}
	// Another one takes it over by a time of its own, and is at work.
	s.exec(fmt.Sprintf(`UPDATE t_message_consume_log SET consumed_at = '%s' WHERE message_id = 'parked'`, stamp(time.Now().Add(5*time.Second), time.UTC)))
	due, err := store.Inbox.Due(t.Context(), "g", 10)
	if err != nil || len(due.Items) != 1 {
		t.Fatalf("due are %v, %v", due.Items, err)
	}
	if got := s.Apply(store, due.Items...); got[0] != settle.VerdictLeftOver {
		t.Errorf("what a foreign consumer has taken over is %v", got)
	}
	var id int64
	if err := store.DB.QueryRowContext(t.Context(), `SELECT id FROM t_dead_letter WHERE event_id = 'dead'`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Governance.Discard(t.Context(), govern.Act{By: "ana", Reason: "a test"}, id); err != nil {
		t.Fatal(err)
	}
	if got := s.Logged("dead"); got != "SUCCESS" {
		t.Errorf("a discarded event is %q in the shared log", got)
	}
}

// Edited checks that an event whose edit was applied is done for foreign
// consumers, whether they have seen it or not.
func Edited(t *testing.T, open Open) {
	s := SharedLog(t, open, "UTC")
	store := s.Open(Options{})
	edit := func(id, of string) settle.Item {
		it := Item(id, "k")
		it.Record.Event.Supersedes = of
		return it
	}
	s.Write("begun", "PROCESSING", time.Now().Add(-time.Hour), time.UTC)
	if got := s.Apply(store, edit("edit-1", "unseen"), edit("edit-2", "begun")); got[0] != settle.VerdictApplied || got[1] != settle.VerdictApplied {
		t.Fatalf("edits are %v", got)
	}
	for _, id := range []string{"unseen", "begun", "edit-1", "edit-2"} {
		if got := s.Logged(id); got != "SUCCESS" {
			t.Errorf("%s is %q in the shared log", id, got)
		}
	}
	if got := s.Apply(store, Item("unseen", "k"), Item("begun", "k")); got[0] != settle.VerdictDuplicate || got[1] != settle.VerdictDuplicate {
		t.Errorf("what was edited is %v", got)
	}
}

// NotShared checks that a log that can't be shared says why. changes are
// statements that spoil it, by what is said then.
func NotShared(t *testing.T, open Open, changes map[string][]string) {
	for says, change := range changes {
		s := withLog(t, open)
		for _, statement := range change {
			s.exec(statement)
		}
		if _, err := s.Adopt(t.Context(), migrate.AdoptConfig{ConsumeLog: s.log()}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("after %s it says %v", change, err)
		}
	}
}

// Together checks that an outbox and a consume log are adopted together, and
// that the SQL for it does the same.
func Together(t *testing.T, open Open) {
	s := withLog(t, open)
	for _, statement := range s.Outbox {
		s.exec(statement)
	}
	cfg := migrate.AdoptConfig{Table: s.Schema + ".t_outbox_event", ConsumeLog: s.log(), ConsumeStatus: map[string][]string{migrate.ConsumeSuccess: {"OK"}}}
	script, err := s.Script(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RunScript(script); err != nil {
		t.Fatal(err)
	}
	p, err := s.Adopt(t.Context(), cfg)
	if err != nil || p.ConsumeLog == "" || p.Table == "" || !p.Adopted || len(p.Changes) > 0 {
		t.Errorf("after the SQL the plan is %+v, %v", p, err)
	}
	if got := s.Apply(s.Open(Options{}), Item("e", "k")); got[0] != settle.VerdictApplied || s.Logged("e") != "OK" {
		t.Errorf("an event is %v, and %q in the shared log", got, s.Logged("e"))
	}
}
