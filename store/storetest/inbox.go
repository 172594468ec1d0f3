package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
)

// InboxStore is a database with nothing in it, as seen by the suite of the
// inbox and of governance.
type InboxStore[Tx any] struct {
	Inbox      settle.Inbox[Tx]
	Governance govern.Store
	// Effect writes a row of the business in tx; Effects returns all rows that
	// are committed, in the order in which they were written.
	Effect  func(ctx context.Context, tx Tx, row string) error
	Effects func(ctx context.Context) ([]string, error)
	// LeaveOver writes a row of a foreign consumer into the consume log.
	LeaveOver func(ctx context.Context, group, eventID, status string, at time.Time) error
	// Tamper changes the reason of an audit entry behind the store's back.
	Tamper func(ctx context.Context, seq int64) error
	// Garble makes the stored record of a waiting event unreadable.
	Garble func(ctx context.Context, group, eventID string) error
}

// InboxCase is one rule of settle.Inbox or govern.Store.
type InboxCase[Tx any] struct {
	// Name is the rule as a sentence.
	Name string
	Run  func(t testing.TB, s InboxStore[Tx])
}

// InboxCases returns every rule. Each wants a database of its own.
func InboxCases[Tx any]() []InboxCase[Tx] {
	return slices.Concat(applyCases[Tx](), orderCases[Tx](), windowCases[Tx](), sequenceCases[Tx](), lineageCases[Tx](), ownerCases[Tx](), attendCases[Tx](), governCases[Tx](), compensateCases[Tx]())
}

// RunInbox checks every rule, each on a database that open makes and t cleans
// up.
func RunInbox[Tx any](t *testing.T, open func(t testing.TB) InboxStore[Tx]) {
	for _, c := range InboxCases[Tx]() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, open(t))
		})
	}
}

// group is a consumer group under test.
type group[Tx any] struct {
	testing.TB
	InboxStore[Tx]
	ctx  context.Context
	work settle.Work
	// fail says what the handler returns for an event id.
	fail map[string]error
}

func newGroup[Tx any](t testing.TB, s InboxStore[Tx]) *group[Tx] {
	return &group[Tx]{TB: t, InboxStore: s, ctx: context.Background(), work: settle.Work{Group: "inventory"}, fail: map[string]error{}}
}

// handler writes the event's id as the effect, then does what fail says.
func (g *group[Tx]) handler(items []settle.Item) func(context.Context, Tx, int) error {
	return func(ctx context.Context, tx Tx, i int) error {
		id := items[i].Record.Event.ID
		if err := g.Effect(ctx, tx, id); err != nil {
			return err
		}
		return g.fail[id]
	}
}

func (g *group[Tx]) try(items ...settle.Item) ([]settle.Result, error) {
	w := g.work
	w.Items = items
	return g.Inbox.Apply(g.ctx, w, g.handler(items))
}

// apply applies items and wants these verdicts.
func (g *group[Tx]) apply(items []settle.Item, want ...settle.Verdict) []settle.Result {
	g.Helper()
	results, err := g.try(items...)
	if err != nil {
		g.Fatalf("Apply: %v", err)
	}
	got := make([]settle.Verdict, len(results))
	for i, r := range results {
		got[i] = r.Verdict
	}
	if !slices.Equal(got, want) {
		g.Fatalf("Apply gives verdicts %v, want %v (results %+v)", got, want, results)
	}
	return results
}

func (g *group[Tx]) wantEffects(want ...string) {
	g.Helper()
	got, err := g.Effects(g.ctx)
	if err != nil {
		g.Fatalf("read effects: %v", err)
	}
	if !slices.Equal(got, want) {
		g.Fatalf("effects are %v, want %v", got, want)
	}
}

func (g *group[Tx]) wantEffectsInAnyOrder(want ...string) {
	g.Helper()
	got, err := g.Effects(g.ctx)
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		g.Fatalf("effects are %v, %v, want %v in any order", got, err, want)
	}
}

// due returns what is due and wants these events, in this order.
func (g *group[Tx]) due(want ...string) []settle.Item {
	g.Helper()
	d, err := g.Inbox.Due(g.ctx, g.work.Group, 100)
	if err != nil {
		g.Fatalf("Due: %v", err)
	}
	if got := ids(d.Items); !slices.Equal(got, want) {
		g.Fatalf("due are %v, want %v", got, want)
	}
	return d.Items
}

// letters returns the group's dead letters in a state and wants these events.
func (g *group[Tx]) letters(state string, want ...string) []govern.DeadLetter {
	g.Helper()
	found, err := g.Governance.DeadLetters(g.ctx, govern.Filter{State: state, Group: g.work.Group})
	if err != nil {
		g.Fatalf("DeadLetters: %v", err)
	}
	got := []string{}
	for _, d := range found {
		got = append(got, d.EventID)
	}
	if !slices.Equal(got, append([]string{}, want...)) {
		g.Fatalf("dead letters in state %s are of %v, want %v", state, got, want)
	}
	return found
}

// act checks the outcomes of a replay or discard.
func (g *group[Tx]) act(got []govern.Outcome, err error, want ...string) {
	g.Helper()
	if err != nil {
		g.Fatalf("act: %v", err)
	}
	results := []string{}
	for _, o := range got {
		results = append(results, o.Result)
		if o.Result == "refused" && o.Why == "" {
			g.Fatalf("dead letter %d is refused without a word", o.ID)
		}
	}
	if !slices.Equal(results, want) {
		g.Fatalf("outcomes are %+v, want %v", got, want)
	}
}

var ann = govern.Act{By: "ann", Reason: "stock was counted"}

// die makes dead letters of events, and returns them.
func (g *group[Tx]) die(items ...settle.Item) []govern.DeadLetter {
	g.Helper()
	want := make([]settle.Verdict, len(items))
	for i := range items {
		items[i].Intent, items[i].Class, items[i].Cause, items[i].Attempt = settle.IntentDie, settle.ClassHandler, "no stock", 10
		want[i] = settle.VerdictDead
	}
	g.apply(items, want...)
	return g.letters(govern.StateOpen, ids(items)...)
}

// on makes an item of an event of key.
func on(key, id string) settle.Item {
	now := time.Now()
	e := &settle.Event{
		ID: id, Type: "order.created", AggregateType: "order", AggregateID: key, BizKey: key, TraceID: "trace-" + key,
		OccurredAt: now, AppendedAt: now, Version: 1, ContentType: settle.ContentTypeJSON, Payload: []byte(`{"id":"` + id + `"}`),
	}
	return settle.Item{Attempt: 1, Record: settle.Record{
		Event: e, Raw: settle.AppendEnvelope(nil, e), Key: key, RecordedAt: now, Headers: map[string]string{"x": "y"},
		At: settle.Coordinates{Topic: "t", Partition: 3, Offset: 7}, Position: 7,
	}}
}

// edit changes the event of an item, and its bytes with it.
func edit(it settle.Item, change func(e *settle.Event)) settle.Item {
	change(it.Record.Event)
	it.Record.Raw = settle.AppendEnvelope(nil, it.Record.Event)
	return it
}

// seq makes an item of the n-th event of key.
func seq(key string, n int64) settle.Item {
	return edit(on(key, fmt.Sprintf("%s-%d", key, n)), func(e *settle.Event) { e.AggregateSeq = n })
}

// park makes an item that is to wait, due at once.
func park(it settle.Item) settle.Item {
	it.Intent, it.Class, it.Cause = settle.IntentPark, settle.ClassHandler, "no stock"
	return it
}

func ids(items []settle.Item) []string {
	var out []string
	for _, it := range items {
		if it.Record.Event == nil {
			out = append(out, "?")
			continue
		}
		out = append(out, it.Record.Event.ID)
	}
	return out
}

func batch(items ...settle.Item) []settle.Item { return items }

// contains fails unless text has part.
func contains(t testing.TB, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Fatalf("%q does not say %q", text, part)
	}
}
