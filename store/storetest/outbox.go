package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

// OutboxStore is a database with nothing in it, as seen by the suite of the
// outbox and the relay's log.
type OutboxStore[Tx any] struct {
	Outbox settle.Outbox[Tx]
	// Begin, Commit and Rollback are the business's transactions.
	Begin    func(ctx context.Context) (Tx, error)
	Commit   func(Tx) error
	Rollback func(Tx) error
	// Store is the relay's view of the table; Standby is that of another relay on the same
	// table, as from another process.
	Store, Standby relay.Store
	Governance     govern.Store
	// Status returns what a person is told of an event: PENDING, SENT, RETRY,
	// DEAD or DISCARDED.
	Status func(ctx context.Context, eventID string) (string, error)
	// Where returns the coordinates that were kept of an acknowledged event.
	Where func(ctx context.Context, eventID string) (settle.Coordinates, error)
	// Pass lets d pass for leases and time stamps: by a clock of the test or by
	// waiting.
	Pass func(d time.Duration)
	// Now is the database's time.
	Now func() time.Time
	// Insert writes an event under an id of the caller's, as a transaction does
	// that was given its id early and commits late.
	Insert func(ctx context.Context, id int64, e *settle.Event) error
	// Vanish deletes an event's row behind the store's back.
	Vanish func(ctx context.Context, eventID string) error
	// Empty deletes all events behind the store's back, and lets ids begin at 1
	// again.
	Empty func(ctx context.Context) error
}

// OutboxCase is one rule of settle.Outbox or relay.Store.
type OutboxCase[Tx any] struct {
	// Name is the rule as a sentence.
	Name string
	Run  func(t testing.TB, s OutboxStore[Tx])
}

// OutboxCases returns every rule. Each wants a database of its own.
func OutboxCases[Tx any]() []OutboxCase[Tx] {
	return slices.Concat(appendCases[Tx](), pollCases[Tx](), leaseCases[Tx](), commitCases[Tx](), parkCases[Tx](), sideCases[Tx](), shareCases[Tx](), upkeepCases[Tx](), statusCases[Tx](), resendCases[Tx](), restartCases[Tx]())
}

// RunOutbox checks every rule, each on a database that open makes and t cleans
// up.
func RunOutbox[Tx any](t *testing.T, open func(t testing.TB) OutboxStore[Tx]) {
	RunOutboxExcept(t, nil, open)
}

// RunOutboxExcept is RunOutbox for a store of which some rules can't be asked:
// except gives the reason of each by its name, and shows it in place of the
// rule. A name that no rule has is an error.
func RunOutboxExcept[Tx any](t *testing.T, except map[string]string, open func(t testing.TB) OutboxStore[Tx]) {
	runExcept(t, OutboxCases[Tx](), except, open)
}

func runExcept[Tx any](t *testing.T, cases []OutboxCase[Tx], except map[string]string, open func(t testing.TB) OutboxStore[Tx]) {
	left := maps.Clone(except)
	for _, c := range cases {
		delete(left, c.Name)
		t.Run(c.Name, func(t *testing.T) {
			if why := except[c.Name]; why != "" {
				t.Skip("DOES NOT APPLY: " + why)
			}
			t.Parallel()
			c.Run(t, open(t))
		})
	}
	for name := range left {
		t.Errorf("there is no rule %q to leave out", name)
	}
}

// outbox is a table under test and the relay that leads it.
type outbox[Tx any] struct {
	testing.TB
	OutboxStore[Tx]
	ctx    context.Context
	lease  relay.Lease
	number int64
}

const leaseTime = time.Second

func newOutbox[Tx any](t testing.TB, s OutboxStore[Tx]) *outbox[Tx] {
	return &outbox[Tx]{TB: t, OutboxStore: s, ctx: context.Background()}
}

// leading is newOutbox with the lease taken.
func leading[Tx any](t testing.TB, s OutboxStore[Tx]) *outbox[Tx] {
	o := newOutbox(t, s)
	o.lead("first")
	return o
}

func (o *outbox[Tx]) lead(owner string) {
	o.Helper()
	lease, err := o.Store.Lead(o.ctx, owner, 0, time.Hour)
	if err != nil || !lease.Held {
		o.Fatalf("Lead by %s: %+v, %v; want the lease", owner, lease, err)
	}
	o.lease = lease
}

func event(id, key string) *settle.Event {
	return &settle.Event{ID: id, Type: "order.created", AggregateType: "order", AggregateID: key, Payload: []byte(`{"id":"` + id + `"}`)}
}

// in runs f in a business transaction that commits.
func (o *outbox[Tx]) in(f func(tx Tx) error) {
	o.Helper()
	tx, err := o.Begin(o.ctx)
	if err != nil {
		o.Fatalf("Begin: %v", err)
	}
	if err := f(tx); err != nil {
		_ = o.Rollback(tx)
		o.Fatalf("in a transaction: %v", err)
	}
	if err := o.OutboxStore.Commit(tx); err != nil {
		o.Fatalf("commit: %v", err)
	}
}

// append stores events in one transaction each.
func (o *outbox[Tx]) append(events ...*settle.Event) {
	o.Helper()
	for _, e := range events {
		o.in(func(tx Tx) error { return o.Outbox.Append(o.ctx, tx, e) })
	}
}

func (o *outbox[Tx]) poll(q relay.PollQuery) relay.Page {
	o.Helper()
	if q.MaxRows == 0 {
		q.MaxRows = 100
	}
	if q.MaxBytes == 0 {
		q.MaxBytes = 1 << 20
	}
	p, err := o.Store.Poll(o.ctx, q)
	if err != nil {
		o.Fatalf("Poll(%+v): %v", q, err)
	}
	return p
}

// rows returns all rows of the log, and wants these events.
func (o *outbox[Tx]) rows(want ...string) []relay.Row {
	o.Helper()
	p := o.poll(relay.PollQuery{})
	o.wantRows("the log has", p.Rows, want...)
	return p.Rows
}

func (o *outbox[Tx]) wantRows(what string, rows []relay.Row, want ...string) {
	o.Helper()
	if got := rowIDs(rows); !slices.Equal(got, want) {
		o.Fatalf("%s %v, want %v", what, got, want)
	}
}

func rowIDs(rows []relay.Row) []string {
	var got []string
	for _, r := range rows {
		got = append(got, r.Event.ID)
	}
	return got
}

// flush commits f, numbered, and with a reader at cursor unless f has readers.
func (o *outbox[Tx]) flush(cursor int64, f relay.Flush) {
	o.Helper()
	if err := o.tryFlush(cursor, f); err != nil {
		o.Fatalf("Commit: %v", err)
	}
}

func (o *outbox[Tx]) tryFlush(cursor int64, f relay.Flush) error {
	o.number++
	f.Checkpoint.Number = o.number
	if f.Checkpoint.Readers == nil {
		f.Checkpoint.Readers = []relay.Reader{{Cursor: cursor}}
	}
	return o.Store.Commit(o.ctx, o.lease, f)
}

func (o *outbox[Tx]) load() relay.State {
	o.Helper()
	st, err := o.Store.Load(o.ctx, o.lease)
	if err != nil {
		o.Fatalf("Load: %v", err)
	}
	return st
}

func (o *outbox[Tx]) side(q relay.SideQuery) relay.SidePage {
	o.Helper()
	if q.MaxRows == 0 {
		q.MaxRows, q.MaxBytes = 100, 1<<20
	}
	p, err := o.Store.Side(o.ctx, q)
	if err != nil {
		o.Fatalf("Side(%+v): %v", q, err)
	}
	return p
}

func (o *outbox[Tx]) wantStatus(eventID, want string) {
	o.Helper()
	got, err := o.Status(o.ctx, eventID)
	if err != nil || got != want {
		o.Fatalf("status of %s is %s (%v), want %s", eventID, got, err, want)
	}
}

func sentRow(r relay.Row, from relay.Origin) relay.Sent {
	return relay.Sent{
		ID: r.ID, EventID: r.Event.ID, Destination: r.Event.Topic, From: from,
		At: settle.Coordinates{Topic: r.Event.Topic, Partition: 3, Offset: 100 + r.ID}, SentAt: time.Now(),
	}
}

// sentRows are rows of the log that were acknowledged.
func sentRows(rows ...relay.Row) (sent []relay.Sent) {
	for _, r := range rows {
		sent = append(sent, sentRow(r, relay.FromLog))
	}
	return sent
}

func parkRow(r relay.Row, class settle.Class, attempts int, next time.Time) relay.Park {
	return relay.Park{
		ID: r.ID, EventID: r.Event.ID, EventType: r.Event.Type, Key: r.Event.Key(), Destination: r.Event.Topic,
		Attempts: attempts, NextAt: next, Class: class, Cause: "because of " + r.Event.ID,
	}
}

func death(r relay.Row, unblock bool) relay.Death {
	return relay.Death{
		ID: r.ID, Destination: r.Event.Topic, Key: r.Event.Key(), From: relay.FromParked, Attempts: 10,
		Class: settle.ClassPublish, Cause: "refused ten times", Unblock: unblock,
	}
}

// letter returns the only dead letter there is, in state.
func (o *outbox[Tx]) letter(state string) govern.DeadLetter {
	o.Helper()
	all, err := o.Governance.DeadLetters(o.ctx, govern.Filter{State: "any"})
	if err != nil || len(all) != 1 || all[0].State != state {
		o.Fatalf("dead letters: %+v, %v; want one in state %s", all, err, state)
	}
	return all[0]
}

func (o *outbox[Tx]) parkedKeys() string {
	o.Helper()
	var keys []string
	for _, k := range o.load().Parked {
		keys = append(keys, fmt.Sprintf("%s/%s:%d", k.Destination, k.Key, k.Rows))
	}
	return fmt.Sprint(keys)
}
