package txmsgtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/txmsg"
)

// Harness is one broker under test, with a topic and a group of producers of one
// case alone.
type Harness struct {
	// Broker is the connection under test; Again opens another one of the same
	// group, as another process would. Who opens them closes them.
	Broker txmsg.Broker
	Again  func(t testing.TB) txmsg.Broker
	// Topic is where events go.
	Topic string
	// Log returns the ids of the events that consumers have received, each as often
	// as that.
	Log func(t testing.TB) []*settle.Event
	// Ask has the broker ask now for what has not ended. Defaults to nil: it asks
	// by itself.
	Ask func()
	// TooLarge is a payload's size in bytes that the broker refuses.
	TooLarge int
	// Patience is how long the suite waits for what has to happen. Defaults to
	// 60 s. Quiet is how long it looks that something does not. Defaults to 200 ms.
	Patience, Quiet time.Duration
}

// Run runs every case on a harness of its own. open is called once for each case
// and cleans up with t.Cleanup.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(newBench(t, open(t)))
		})
	}
}

// testCase is one sentence of the contract.
type testCase struct {
	name string
	run  func(b *bench)
}

func cases() []testCase {
	return []testCase{
		{"a half message is shown to nobody until it is committed, and then whole", shownOnCommit},
		{"a half message that is rolled back is never shown, and not asked for", neverShown},
		{"a half message that has not ended is asked for, with what it carries", askedFor},
		{"an answer of roll-back ends it", answeredRollback},
		{"an answer that does not know lets the broker ask again", answeredUnknown},
		{"another process of the group is asked once it has warmed up, though it has sent nothing", askedElsewhere},
		{"an end is told by a handle alone, by any process", endedElsewhere},
		{"a commit that is told again is no error", endedTwice},
		{"a message that can't be encoded, or is too large, is the event's fault", refused},
		{"a call whose time has ended does not wait", ended},
		{"warming up shows nobody anything", warmed},
	}
}

// bench is a broker under test.
type bench struct {
	testing.TB
	h   Harness
	ctx context.Context

	mu     sync.Mutex
	checks []txmsg.Check
}

func newBench(t testing.TB, h Harness) *bench {
	if h.Patience <= 0 {
		h.Patience = time.Minute
	}
	if h.Quiet <= 0 {
		h.Quiet = 200 * time.Millisecond
	}
	return &bench{TB: t, h: h, ctx: context.Background()}
}

// event is one of the case's own.
func (b *bench) event() *settle.Event {
	e := &settle.Event{Type: "order.created", AggregateType: "order", AggregateID: "o-" + settle.NewID(), Topic: b.h.Topic, Payload: []byte(`{"total":1.10}`), Headers: map[string]string{"team": "sales"}}
	if err := e.Prepare(time.Now()); err != nil {
		b.Fatal(err)
	}
	return e
}

func (b *bench) half(id string, e *settle.Event) txmsg.Handle {
	b.Helper()
	h, err := b.h.Broker.Half(b.ctx, txmsg.Half{ID: id, Message: settle.Message{ID: e.ID, Event: e}})
	if err != nil || h == "" || len(h) > txmsg.MaxHandle {
		b.Fatalf("Half: %q, %v", h, err)
	}
	return h
}

func (b *bench) end(h txmsg.Handle, v txmsg.Verdict) {
	b.Helper()
	if err := b.h.Broker.End(b.ctx, h, v); err != nil {
		b.Fatalf("End with %s: %v", v, err)
	}
}

// listen takes checks in until the case ends.
func (b *bench) listen(to txmsg.Broker) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- to.Checks(ctx, func(c txmsg.Check) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.checks = append(b.checks, c)
		})
	}()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Errorf("Checks: %v", err)
		}
	})
	if err := to.WarmUp(b.ctx); err != nil {
		b.Fatalf("WarmUp: %v", err)
	}
}

// check waits for the nth question about a transaction.
func (b *bench) check(id string, nth int) (found txmsg.Check) {
	b.Helper()
	b.await("the broker asks for "+id, func() bool {
		if b.h.Ask != nil {
			b.h.Ask()
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		n := 0
		for _, c := range b.checks {
			if c.ID == id {
				found = c
				n++
			}
		}
		return n >= nth
	})
	return found
}

func (b *bench) await(what string, is func() bool) {
	b.Helper()
	for end := time.Now().Add(b.h.Patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("waited in vain until %s", what)
		}
	}
}

// shown returns how often consumers have an event, and its last copy.
func (b *bench) shown(id string) (n int, last *settle.Event) {
	for _, e := range b.h.Log(b.TB) {
		if e.ID == id {
			n++
			last = e
		}
	}
	return n, last
}

func (b *bench) awaitShown(e *settle.Event) *settle.Event {
	b.Helper()
	var got *settle.Event
	b.await("event "+e.ID+" is shown", func() bool {
		n := 0
		n, got = b.shown(e.ID)
		return n > 0
	})
	return got
}

func (b *bench) hidden(e *settle.Event) {
	b.Helper()
	time.Sleep(b.h.Quiet)
	if n, _ := b.shown(e.ID); n > 0 {
		b.Fatalf("event %s is shown %d times", e.ID, n)
	}
}

func shownOnCommit(b *bench) {
	e := b.event()
	h := b.half("t.1", e)
	b.hidden(e)
	b.end(h, txmsg.Commit)
	got := b.awaitShown(e)
	if got.AggregateID != e.AggregateID || got.Type != e.Type || string(got.Payload) != string(e.Payload) || got.Headers["team"] != "sales" {
		b.Errorf("it is shown as %+v", got)
	}
}

func neverShown(b *bench) {
	b.listen(b.h.Broker)
	dropped, kept := b.event(), b.event()
	b.end(b.half("t.1", dropped), txmsg.Rollback)
	b.half("t.2", kept)
	b.check("t.2", 2)
	b.hidden(dropped)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.checks {
		if c.ID == "t.1" {
			b.Errorf("it is asked for: %+v", c)
		}
	}
}

func askedFor(b *bench) {
	b.listen(b.h.Broker)
	e := b.event()
	b.half("t.1", e)
	c := b.check("t.1", 1)
	if c.EventID != e.ID || c.EventType != e.Type || c.Key != e.AggregateID || c.Topic != e.Topic || c.Handle == "" {
		b.Errorf("the check is %+v", c)
	}
	if err := b.h.Broker.Answer(b.ctx, c, txmsg.Commit); err != nil {
		b.Fatalf("Answer: %v", err)
	}
	b.awaitShown(e)
}

func answeredRollback(b *bench) {
	b.listen(b.h.Broker)
	e, other := b.event(), b.event()
	b.half("t.1", e)
	if err := b.h.Broker.Answer(b.ctx, b.check("t.1", 1), txmsg.Rollback); err != nil {
		b.Fatalf("Answer: %v", err)
	}
	b.mu.Lock()
	b.checks = nil
	b.mu.Unlock()
	b.half("t.2", other)
	b.check("t.2", 2)
	b.hidden(e)
	b.mu.Lock()
	defer b.mu.Unlock()
	again := 0
	for _, c := range b.checks {
		if c.ID == "t.1" {
			again++
		}
	}
	if again > 1 { // one may have been on its way
		b.Errorf("it is asked for %d times after its end", again)
	}
}

func answeredUnknown(b *bench) {
	b.listen(b.h.Broker)
	e := b.event()
	b.half("t.1", e)
	if err := b.h.Broker.Answer(b.ctx, b.check("t.1", 1), txmsg.Unknown); err != nil {
		b.Fatalf("Answer: %v", err)
	}
	b.hidden(e)
	if err := b.h.Broker.Answer(b.ctx, b.check("t.1", 2), txmsg.Commit); err != nil {
		b.Fatalf("Answer: %v", err)
	}
	b.awaitShown(e)
}

func askedElsewhere(b *bench) {
	e := b.event()
	b.half("t.1", e)
	other := b.h.Again(b.TB)
	b.listen(other)
	// The sender is there too, and does not answer.
	if err := other.Answer(b.ctx, b.check("t.1", 1), txmsg.Commit); err != nil {
		b.Fatalf("Answer: %v", err)
	}
	b.awaitShown(e)
}

func endedElsewhere(b *bench) {
	e := b.event()
	h := b.half("t.1", e)
	if err := b.h.Again(b.TB).End(b.ctx, h, txmsg.Commit); err != nil {
		b.Fatalf("End: %v", err)
	}
	b.awaitShown(e)
}

func endedTwice(b *bench) {
	e := b.event()
	h := b.half("t.1", e)
	b.end(h, txmsg.Commit)
	b.end(h, txmsg.Commit)
	b.awaitShown(e)
}

func refused(b *bench) {
	large := b.event()
	large.ContentType, large.Payload = "text/plain", []byte(strings.Repeat("x", b.h.TooLarge))
	unnamed := b.event()
	unnamed.Type = ""
	for _, e := range []*settle.Event{large, unnamed} {
		_, err := b.h.Broker.Half(b.ctx, txmsg.Half{ID: "t.1", Message: settle.Message{ID: e.ID, Event: e}})
		if err == nil || settle.ScopeOf(err) != settle.ScopeRecord {
			b.Errorf("Half: %v", err)
		}
	}
}

func ended(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	e := b.event()
	if _, err := b.h.Broker.Half(ctx, txmsg.Half{ID: "t.1", Message: settle.Message{ID: e.ID, Event: e}}); err == nil {
		b.Error("Half is done")
	}
	h := b.half("t.2", e)
	if err := b.h.Broker.End(ctx, h, txmsg.Commit); err == nil || errors.Is(err, txmsg.ErrGone) {
		b.Errorf("End: %v", err)
	}
	b.end(h, txmsg.Commit)
}

func warmed(b *bench) {
	before := len(b.h.Log(b.TB))
	if err := b.h.Broker.WarmUp(b.ctx); err != nil {
		b.Fatalf("WarmUp: %v", err)
	}
	time.Sleep(b.h.Quiet)
	if n := len(b.h.Log(b.TB)) - before; n != 0 {
		b.Errorf("consumers have %d more", n)
	}
}
