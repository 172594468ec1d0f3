package drill_test

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/settletest"
)

// watched are two services that a watch looks at: the order service emits, the
// stock service hears.
type watched struct {
	t             *testing.T
	orders, stock *dial.Database
	services      []*drill.Service
	watch         *drill.Watch
	broker        *memory.Broker
}

var heard = map[string][]string{"stock": {"order.created", "order.cancelled"}}

func watchShop(t *testing.T, at func(service string) string) *watched {
	t.Helper()
	w := &watched{t: t, broker: memory.New(memory.Config{})}
	open := func(name string) *dial.Database {
		u := at(name)
		db := openDatabase(t, u)
		service, err := drill.OpenService(name, u)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = service.Close(); _ = db.Close() })
		w.services = append(w.services, service)
		return db
	}
	w.orders, w.stock = open("order"), open("stock")
	w.watch = drill.NewWatch(w.services, heard)
	return w
}

func (w *watched) append(id, eventType, order string, notBefore time.Time) {
	w.t.Helper()
	tx, err := w.orders.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	e := &settle.Event{ID: id, Type: eventType, AggregateID: order, NotBefore: notBefore, Payload: []byte("{}")}
	if err := w.orders.Append(w.t.Context(), tx, e); err != nil {
		w.t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) relay() *relay.Relay {
	return relay.New(w.orders.Log, w.broker, relay.Config{DelayAhead: time.Millisecond})
}

// consume handles what is heard; o-bad is not digested.
func (w *watched) consume() settletest.Runner {
	c := consumer.New("stock", w.broker, w.stock.Inbox, consumer.Config{Retry: settle.Backoff{Base: time.Millisecond, Attempts: 2}, RetryPoll: 5 * time.Millisecond})
	for _, eventType := range heard["stock"] {
		c.Handle(eventType, func(_ context.Context, _ *sql.Tx, e *settle.Event) error {
			if e.ID == "bad" {
				return errors.New("not stocked")
			}
			return nil
		})
	}
	return c
}

// comes waits for a state, and compares what is counted bit by bit with what a
// watch finds that looks for the first time.
func (w *watched) comes(want drill.State) {
	w.t.Helper()
	var got drill.State
	eventually(w.t, 10*time.Second, "the state comes", func() bool {
		var err error
		if got, err = w.watch.State(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		return got == want
	})
	fresh, err := drill.NewWatch(w.services, heard).State(w.t.Context())
	if err != nil || fresh != got {
		w.t.Errorf("counted anew %+v, %v; counted bit by bit %+v", fresh, err, got)
	}
}

func TestAWatchCountsWhatIsOnItsWay(t *testing.T) { onEachDatabase(t, testAWatchCountsWhatIsOnItsWay) }

func testAWatchCountsWhatIsOnItsWay(t *testing.T, at func(service string) string) {
	w := watchShop(t, at)
	w.comes(drill.State{})
	w.append("a", "order.created", "o-1", time.Time{})
	w.append("bad", "order.created", "o-bad", time.Time{})
	w.append("behind", "order.cancelled", "o-bad", time.Time{})
	w.append("unheard", "order.paid", "o-1", time.Time{})
	later := time.Now().Add(time.Hour)
	w.append("timer", "order.created", "o-2", later)
	w.comes(drill.State{Accepted: 3, Cancelled: 1, Unpublished: 5, Behind: 4})

	stop := settletest.Run(t, w.relay())
	w.comes(drill.State{Accepted: 3, Cancelled: 1, Timers: 1, Behind: 3})
	stop()

	stop = settletest.Run(t, w.consume())
	blocked := drill.State{Accepted: 3, Cancelled: 1, Timers: 1, DeadOpen: 1}
	w.comes(blocked)
	stop()
	if !blocked.Blocked(0) || blocked.Blocked(1) || blocked.Settled(1) {
		t.Errorf("%+v is not blocked, or settled before its timer", blocked)
	}
	letters, err := w.watch.Letters(t.Context())
	want := []drill.Letter{{ID: "stock:1", Service: "stock", Class: "handler_error", EventType: "order.created", Key: "o-bad", Reason: "not stocked"}}
	if err != nil || !reflect.DeepEqual(letters, want) {
		t.Errorf("letters %+v, %v", letters, err)
	}

	// More comes while a letter waits, ahead of it and behind it.
	w.append("b", "order.created", "o-3", time.Time{})
	w.append("behind too", "order.cancelled", "o-bad", time.Time{})
	stop = settletest.Run(t, w.relay(), w.consume())
	blocked.Accepted, blocked.Cancelled = 4, 2
	w.comes(blocked)
	stop()

	if _, err := w.stock.Governance.Discard(t.Context(), govern.Act{By: "alice", Reason: "no such thing"}, 1); err != nil {
		t.Fatal(err)
	}
	w.comes(drill.State{Accepted: 4, Cancelled: 2, Timers: 1, Behind: 2})
	stop = settletest.Run(t, w.consume())
	w.comes(drill.State{Accepted: 4, Cancelled: 2, Timers: 1})
	stop()
}

func TestAStateIsSettledOnlyWhenNothingIsLeftButLettersToBeLeft(t *testing.T) {
	good := drill.State{Accepted: 3, Completed: 2, Cancelled: 1, DeadOpen: 2}
	if !good.Settled(2) || good.Settled(1) || !good.Settled(3) || good.Blocked(2) || !good.Blocked(1) {
		t.Errorf("%+v", good)
	}
	for name, spoil := range map[string]func(*drill.State){
		"open":        func(s *drill.State) { s.Accepted++ },
		"timers":      func(s *drill.State) { s.Timers++ },
		"unpublished": func(s *drill.State) { s.Unpublished++ },
		"behind":      func(s *drill.State) { s.Behind++ },
		"replaying":   func(s *drill.State) { s.Replaying++ },
	} {
		s := good
		spoil(&s)
		moves := name != "open" && name != "timers"
		if s.Settled(2) || s.Blocked(1) == moves {
			t.Errorf("%s: settled %v, blocked %v", name, s.Settled(2), s.Blocked(1))
		}
	}
}
