package storetest

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/govern"
)

// BridgeStore is a database with nothing in it, as seen by the suite of bridges.
type BridgeStore struct {
	Bridge     bridge.Store
	Governance govern.Store
	// Advance sets the clock that the database goes by forward, or back.
	Advance func(d time.Duration)
}

// BridgeCase is one rule of bridge.Store, or of govern.Store for what it keeps.
type BridgeCase struct {
	// Name is the rule as a sentence.
	Name string
	Run  func(t testing.TB, s BridgeStore)
}

// BridgeCases returns every rule. Each wants a database of its own.
func BridgeCases() []BridgeCase {
	return []BridgeCase{
		{"a letter is kept once, however often it comes", keptOnce},
		{"of a batch that can't be kept nothing is kept", keptWholly},
		{"a kept letter tells all that its source has told", keptTells},
		{"bytes, key, headers and what the adapter needs go back as they came, whatever they are", goesBackAsItCame},
		{"only who holds the lease keeps and marks", fencedBridge},
		{"a lease goes to another when it has run out or was given back, under a higher epoch", leaseOfBridge},
		{"a lease from before the clock was set back does not last", leaseLeapt},
		{"groups are led each by itself, and an identity is one group's", groupsApart},
		{"a replay is handed out under one id until it is marked, and then closed by who asked", replayedForeign},
		{"a replay that is put off is due at its time, and one that is given up is open again and says why", putOffOrGivenUp},
		{"a replay goes where it can go, or is refused with what can be had", replayTargets},
		{"what can't be understood can go back", undecodableForeign},
		{"a letter is kept also when it tells of times and counts that no column holds", keptWhateverItCounts},
		{"what was discarded is not handed out, and a discard needs a reason", discardForeign},
		{"a compensation is refused: the consumer is not ours", compensateForeign},
		{"what dies again after a replay names the letter before, by return id or by event", diesAgainForeign},
		{"a trail tells where and when it died, who acted, and each once", trailForeign},
		{"letters of other consumers are found as all are, and say that they are not ours", foundForeign},
	}
}

// RunBridge checks every rule, each on a database that open makes and t cleans
// up.
func RunBridge(t *testing.T, open func(t testing.TB) BridgeStore) {
	for _, c := range BridgeCases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, open(t))
		})
	}
}

// bridging is a bridge of one group under test.
type bridging struct {
	testing.TB
	BridgeStore
	ctx   context.Context
	lease bridge.Lease
}

const bridgeTTL = 10 * time.Second

func newBridging(t testing.TB, s BridgeStore) *bridging {
	b := &bridging{TB: t, BridgeStore: s, ctx: context.Background()}
	b.lease = b.lead("stock", "first")
	if !b.lease.Held {
		t.Fatal("a free lease is not given")
	}
	return b
}

func (b *bridging) lead(group, owner string) bridge.Lease {
	b.Helper()
	l, err := b.Bridge.Lead(b.ctx, group, owner, bridgeTTL)
	if err != nil {
		b.Fatalf("Lead: %v", err)
	}
	return l
}

// letter is one of a group's, of the event with this id.
func letter(identity, event string) bridge.Letter {
	e := &settle.Event{
		ID: event, Type: "order.created", AggregateType: "order", AggregateID: "o-" + event, AggregateSeq: 3, BizKey: "B-" + event, TraceID: "t-" + event,
		Version: 1, ContentType: settle.ContentTypeJSON, Payload: []byte(`{"total":1.10}`), AppendedAt: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC),
	}
	died := time.Date(2026, 3, 1, 12, 0, 0, 5000, time.UTC)
	return bridge.Letter{
		Identity: identity, Group: "stock",
		At:   bridge.Place{Topic: "orders.stock.dlt", Partition: 2, Offset: 17},
		From: bridge.Place{Topic: "orders", Partition: 5, Offset: 99},
		Record: settle.Record{
			Position: 17, Event: e, Raw: settle.AppendEnvelope(nil, e), Key: e.AggregateID, RecordedAt: died.Add(time.Second),
			Headers: map[string]string{"x-team": "stock", settle.HeaderEventID: event}, At: settle.Coordinates{Topic: "orders.stock.dlt", Partition: 2, Offset: 17},
		},
		Class: settle.ClassHandler, Exception: "java.lang.IllegalStateException", Message: "no stock", Trace: "at x.Y.z", Attempts: 4, DiedAt: died,
		History: []bridge.Death{{Place: bridge.Place{Queue: "q"}, Reason: "rejected", Count: 2, At: died}},
		To:      []bridge.Target{bridge.ToGroup, bridge.ToOrigin}, Wrapping: []byte{0, 0xff},
	}
}

func (b *bridging) keep(fresh int, letters ...bridge.Letter) {
	b.Helper()
	got, err := b.Bridge.Keep(b.ctx, b.lease, letters)
	if err != nil || got != fresh {
		b.Fatalf("Keep of %d letters gives %d new ones, %v; want %d", len(letters), got, err, fresh)
	}
}

// all returns what the dead-letter store has, oldest first.
func (b *bridging) all() []govern.DeadLetter {
	b.Helper()
	found, err := b.Governance.DeadLetters(b.ctx, govern.Filter{State: "any"})
	if err != nil {
		b.Fatalf("DeadLetters: %v", err)
	}
	return found
}

// show returns one with all it tells, in this state.
func (b *bridging) show(id int64, state string) govern.DeadLetter {
	b.Helper()
	d, err := b.Governance.DeadLetter(b.ctx, id)
	if err != nil || d.State != state || d.Bridged == nil {
		b.Fatalf("dead letter %d is %+v, %v; want it bridged and %s", id, d, err, state)
	}
	return d
}

// one keeps a letter and returns its id.
func (b *bridging) one(identity, event string) int64 {
	b.Helper()
	b.keep(1, letter(identity, event))
	found := b.all()
	return found[len(found)-1].ID
}

func (b *bridging) replay(want string, o govern.ReplayOptions, id int64) govern.Outcome {
	b.Helper()
	out, err := b.Governance.Replay(b.ctx, ann, o, id)
	if err != nil || len(out) != 1 || out[0].Result != want {
		b.Fatalf("Replay gives %+v, %v; want it %s", out, err, want)
	}
	return out[0]
}

// orders returns what is due, which are those of these letters.
func (b *bridging) orders(ids ...int64) []bridge.Order {
	b.Helper()
	o, err := b.Bridge.Ordered(b.ctx, "stock", 10)
	if err != nil {
		b.Fatalf("Ordered: %v", err)
	}
	got := []int64{}
	for _, order := range o.Orders {
		got = append(got, order.ID)
	}
	if !slices.Equal(got, append([]int64{}, ids...)) {
		b.Fatalf("ordered are %v, want %v", got, ids)
	}
	return o.Orders
}

func (b *bridging) mark(m bridge.Mark) {
	b.Helper()
	if err := b.Bridge.Mark(b.ctx, b.lease, []bridge.Mark{m}); err != nil {
		b.Fatalf("Mark: %v", err)
	}
}

func keptOnce(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	b.keep(2, letter("a", "1"), letter("b", "1"), letter("a", "1"))
	b.keep(1, letter("b", "1"), letter("c", "2"))
	if found := b.all(); len(found) != 3 {
		t.Fatalf("there are %d dead letters, want 3", len(found))
	}
}

func keptWholly(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	wrong := letter("", "2")
	if _, err := s.Bridge.Keep(b.ctx, b.lease, []bridge.Letter{letter("a", "1"), wrong}); err == nil {
		t.Fatal("a letter without an identity is kept")
	}
	if found := b.all(); len(found) != 0 {
		t.Fatalf("there are %d dead letters, want none", len(found))
	}
}

func keptTells(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	d, l := b.show(b.one("a", "1"), govern.StateOpen), letter("a", "1")
	switch {
	case d.Group != "stock" || d.EventID != "1" || d.EventType != "order.created" || d.Key != "o-1" || d.BizKey != "B-1" || d.TraceID != "t-1":
		t.Fatalf("the event is %+v", d)
	case d.Class != l.Class || d.Reason != "java.lang.IllegalStateException: no stock" || d.Attempts != 4:
		t.Fatalf("class %s, reason %q, %d attempts", d.Class, d.Reason, d.Attempts)
	case d.Topic != "orders.stock.dlt" || d.Partition != 2 || d.Offset != 17 || d.Behind != 0:
		t.Fatalf("it lies at %s[%d]@%d, %d behind", d.Topic, d.Partition, d.Offset, d.Behind)
	case string(d.Raw) != string(l.Record.Raw) || string(d.Payload) != `{"total":1.10}` || d.Headers["x-team"] != "stock":
		t.Fatalf("raw %q, payload %q, headers %v", d.Raw, d.Payload, d.Headers)
	case !d.Foreign || d.OpenedAt.IsZero() || !d.DueAt.After(d.OpenedAt):
		t.Fatalf("foreign %v, opened %s, due %s", d.Foreign, d.OpenedAt, d.DueAt)
	}
	switch f := d.Bridged; {
	case f.At != l.At || f.From != l.From || !f.DiedAt.Equal(l.DiedAt) || f.BridgedAt.IsZero():
		t.Fatalf("it was bridged as %+v", f)
	case f.Exception != l.Exception || f.Message != l.Message || f.Trace != l.Trace || len(f.History) != 1 || f.History[0].Count != 2:
		t.Fatalf("its cause is %+v", f)
	case !slices.Equal(f.To, l.To) || f.Before != 0 || f.Target != "" || f.Refused != "":
		t.Fatalf("it can go to %v, before it %d, target %q, refused %q", f.To, f.Before, f.Target, f.Refused)
	}
}

func goesBackAsItCame(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	l := letter("a", "1")
	l.Record.Event, l.Record.DecodeErr = nil, errors.New("cut")
	l.Record.Raw, l.Record.Key = []byte("\x00\xff'\"\\"), "k\xff\x00'"
	l.Record.Headers = map[string]string{"kafka_dlt-original-partition": "\x00\x00\x00\x05", "\xfename": "\xff", "": ""}
	l.Message, l.Exception, l.Trace = "a\x00b\xff", "", "\x00"
	b.keep(1, l)
	id := b.all()[0].ID
	b.replay("done", govern.ReplayOptions{}, id)
	got := b.orders(id)[0].Return.Letter
	if string(got.Record.Raw) != string(l.Record.Raw) || got.Record.Key != l.Record.Key || string(got.Wrapping) != string(l.Wrapping) {
		t.Fatalf("it goes back as %q, key %q, wrapping %q", got.Record.Raw, got.Record.Key, got.Wrapping)
	}
	if len(got.Record.Headers) != 3 {
		t.Fatalf("headers are %q", got.Record.Headers)
	}
	for name, value := range l.Record.Headers {
		if got.Record.Headers[name] != value {
			t.Fatalf("header %q is %q, want %q", name, got.Record.Headers[name], value)
		}
	}
	if got.At != l.At || got.From != l.From || got.Identity != "a" || got.Group != "stock" || !got.Record.RecordedAt.Equal(l.Record.RecordedAt) || got.Record.At != l.Record.At || !slices.Equal(got.To, l.To) {
		t.Fatalf("it goes back as %+v", got)
	}
}

// What a foreign producer or consumer may write down is not bounded by what the
// database has columns for.
func keptWhateverItCounts(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	for i, at := range []time.Time{
		time.Unix(1<<62, 0), time.Unix(-1<<62, 0), time.UnixMilli(1_770_000_000_000_000_000), time.UnixMilli(1_770_000_000_000_000),
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(500, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		l := letter("time"+string(rune('a'+i)), "1")
		l.DiedAt, l.Record.RecordedAt, l.Record.Event.AppendedAt, l.History[0].At = at, at, at, at
		if _, err := b.Bridge.Keep(b.ctx, b.lease, []bridge.Letter{l}); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	for i, n := range []int{1 << 40, -1 << 40, math.MaxInt} {
		l := letter("count"+string(rune('a'+i)), "1")
		l.Attempts, l.History[0].Count = n, n
		if _, err := b.Bridge.Keep(b.ctx, b.lease, []bridge.Letter{l}); err != nil {
			t.Errorf("%d attempts: %v", n, err)
		}
	}
	found := b.all()
	for _, d := range found {
		b.show(d.ID, govern.StateOpen)
	}
	if len(found) != 10 {
		t.Errorf("%d are kept, want 10", len(found))
	}
}
