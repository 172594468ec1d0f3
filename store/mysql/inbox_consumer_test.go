package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/govern"
)

// Two members of a group, each with connections of its own, handlers of which
// every fifth fails at its first attempt.
func TestTwoMembersWhoseHandlersFailNowAndThenApplyEachEventOnceAndInOrder(t *testing.T) {
	const keys, each = 10, 10
	stores := processes(t, 2)
	broker := memory.New(memory.Config{})
	defer func() { _ = broker.Close() }()
	for n := 1; n <= each; n++ {
		var batch []settle.Message
		for k := range keys {
			e := eventOn(fmt.Sprintf("k%02d", k), n).Record.Event
			e.Topic = settle.DefaultTopic
			batch = append(batch, settle.Message{Event: e, ID: e.ID})
		}
		for _, r := range broker.Publish(t.Context(), batch) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var tried sync.Map
	var members sync.WaitGroup
	for _, s := range stores {
		c := consumer.New("g", broker, s.Inbox(), consumer.Config{
			Topics: []string{settle.DefaultTopic}, RetryPoll: 5 * time.Millisecond, Retry: settle.Backoff{Base: time.Millisecond}, Concurrency: 3,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		c.Handle("x", func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
			if err := writeEffect(ctx, tx, e.ID); err != nil {
				return err
			}
			if _, again := tried.LoadOrStore(e.ID, true); !again && e.AggregateSeq%5 == 0 {
				return errUnlucky
			}
			return nil
		})
		members.Go(func() {
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for {
		var n int
		err := stores[0].Reader().QueryRowContext(ctx, `SELECT count(*) FROM t_message_consume_log WHERE status = 'APPLIED'`).Scan(&n)
		if err != nil {
			t.Error(err)
			break
		}
		if n == keys*each {
			break
		}
	}
	cancel()
	members.Wait()
	wantOnceInOrder(t, stores[0], keys*each)
}

// What a foreign producer has sent may be anything; columns hold less.
func TestRecordsThatNoTextHoldsAreDealtWithLikeOthers(t *testing.T) {
	s := processes(t, 1)[0]
	long := make([]byte, 5000)
	for i := range long {
		long[i] = byte('a' + i%26)
	}
	var items []settle.Item
	for _, odd := range []string{"zero\x00byte", "not\xffutf-8", string(long)} {
		it := eventOn("k", 1)
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
		results, err := s.Inbox().Apply(t.Context(), w, func(context.Context, *sql.Tx, int) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return verdicts(results)
	}
	p := &pair{T: t}
	dead, stored := settle.VerdictDead, settle.VerdictStored
	p.want(work(settle.IntentPark), settle.VerdictParked, dead, settle.VerdictParked, dead, settle.VerdictParked, dead)
	p.want(work(settle.IntentHandle), stored, stored, stored, stored, stored, stored)
	due, err := s.Inbox().Due(t.Context(), "g", 10)
	if err != nil || len(due.Items) != 3 {
		t.Fatalf("Due gives %d items, %v; want 3", len(due.Items), err)
	}
	letters, err := s.Governance().DeadLetters(t.Context(), govern.Filter{Key: "zero\x00byte"})
	if err != nil || len(letters) != 1 {
		t.Fatalf("%d dead letters have the odd key, %v; want one", len(letters), err)
	}
	d, err := s.Governance().DeadLetter(t.Context(), letters[0].ID)
	if err != nil || string(d.Raw) != "zero\x00byte" {
		t.Fatalf("the dead letter keeps %q, %v; want the bytes as they were found", d.Raw, err)
	}
	if steps, err := s.Governance().Trail(t.Context(), string(long)); err != nil || len(steps) == 0 {
		t.Fatalf("the trail of a long key is %v, %v", steps, err)
	}
}
