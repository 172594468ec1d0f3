package concurrent

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
)

// OddRecords deals with records that no text column holds: what a foreign
// producer has sent may be anything.
func OddRecords(t *testing.T, open Open) {
	p := processes(t, open, 1)[0]
	long := make([]byte, 5000)
	for i := range long {
		long[i] = byte('a' + i%26)
	}
	var items []settle.Item
	for _, odd := range []string{"zero\x00byte", "not\xffutf-8", string(long)} {
		it := Item("k", 1)
		e := *it.Record.Event
		e.ID, e.Type, e.AggregateID, e.AggregateType, e.BizKey, e.TraceID = odd, odd, odd, odd, odd, odd
		it.Record.Event, it.Record.Raw, it.Record.Key = &e, settle.AppendEnvelope(nil, &e), odd
		it.EffectKey = odd
		it.Record.Headers = map[string]string{odd: odd}
		items = append(items, it)
		broken := settle.Item{Intent: settle.IntentDie, Class: settle.ClassDecode, Cause: odd, Record: settle.Record{
			Key: odd, Raw: []byte(odd), Headers: map[string]string{odd: odd}, Position: int64(len(items)), At: settle.Coordinates{Topic: odd},
		}}
		items = append(items, broken)
	}
	work := func(intent settle.Intent) []settle.Verdict {
		w := settle.Work{Group: "g", Items: append([]settle.Item(nil), items...)}
		for i := range w.Items {
			if w.Items[i].Record.Event != nil {
				w.Items[i].Intent, w.Items[i].Class, w.Items[i].Cause = intent, settle.ClassHandler, w.Items[i].EffectKey
			}
		}
		results, err := p.Inbox.Apply(t.Context(), w, func(context.Context, *sql.Tx, int) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return Verdicts(results)
	}
	waits, dead, stored := settle.VerdictParked, settle.VerdictDead, settle.VerdictStored
	wantVerdicts(t, work(settle.IntentPark), waits, dead, waits, dead, waits, dead)
	wantVerdicts(t, work(settle.IntentHandle), stored, stored, stored, stored, stored, stored)
	due, err := p.Inbox.Due(t.Context(), "g", 10)
	if err != nil || len(due.Items) != 3 {
		t.Fatalf("Due gives %d items, %v; want 3", len(due.Items), err)
	}
	letters, err := p.Governance.DeadLetters(t.Context(), govern.Filter{Key: "zero\x00byte"})
	if err != nil || len(letters) != 1 {
		t.Fatalf("%d dead letters have the odd key, %v; want one", len(letters), err)
	}
	d, err := p.Governance.DeadLetter(t.Context(), letters[0].ID)
	if err != nil || string(d.Raw) != "zero\x00byte" {
		t.Fatalf("the dead letter keeps %q, %v; want the bytes as they were found", d.Raw, err)
	}
	if steps, err := p.Governance.Trail(t.Context(), string(long)); err != nil || len(steps) == 0 {
		t.Fatalf("the trail of a long key is %v, %v", steps, err)
	}
}

// BytewiseIDs gives events to a group whose ids, keys and effect keys some
// locale takes for one. Each takes effect, and is known when it comes again.
func BytewiseIDs(t *testing.T, open Open) {
	p := processes(t, open, 1)[0]
	long := strings.Repeat("x", 255)
	ids := []string{"ab1", "Ab1", "aB1", "ab1 ", " ab1", "äb1", "a\u0308b1", "ab１", "ab1\x00", long, long + "1", long + "2", "bad\xff", "bad\xfe"}
	var items []settle.Item
	for _, id := range ids {
		it := Item(id, 1)
		e := *it.Record.Event
		e.ID = id
		it.Record.Event, it.Record.Raw, it.EffectKey = &e, settle.AppendEnvelope(nil, &e), id
		items = append(items, it)
	}
	handled := map[string]int{}
	for _, verdict := range []settle.Verdict{applied, duplicate} {
		results, err := p.Inbox.Apply(t.Context(), settle.Work{Group: "g", Items: items}, func(_ context.Context, _ *sql.Tx, i int) error {
			handled[items[i].Record.Event.ID]++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if r.Verdict != verdict {
				t.Errorf("event %q is %+v, want verdict %d", ids[i], r, verdict)
			}
		}
	}
	for _, id := range ids {
		if handled[id] != 1 {
			t.Errorf("event %q was handled %d times", id, handled[id])
		}
	}
}
