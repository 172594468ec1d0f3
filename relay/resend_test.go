package relay

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// resend is a person's order, as a store writes it.
func (w *world) resend(id int64, messageID string) {
	w.store.control(func(*Controls) { w.store.extra[id] = messageID })
}

func (w *world) messageIDs() string {
	var ids []string
	for _, m := range w.broker.log {
		ids = append(ids, m.ID)
	}
	return fmt.Sprint(ids)
}

func TestAnOrderToSendAgainIsSeenBeforeTheNextSweep(t *testing.T) {
	w := newWorld(t, Config{SweepEvery: time.Hour})
	w.store.add("k", "a")
	w.store.add("j", "a")
	w.run(time.Minute)
	w.resend(1, "e1#1")
	w.run(2 * time.Second)
	if got := w.messageIDs(); got != "[e1 e2 e1#1]" || len(w.store.extra) != 0 {
		t.Errorf("sent %s, listed are %v; want e1 again, once", got, w.store.extra)
	}
	w.run(time.Minute)
	w.kill()
	w.run(time.Minute)
	if got := w.messageIDs(); got != "[e1 e2 e1#1]" {
		t.Errorf("sent %s", got)
	}
}

func TestWhatIsSentAgainKeepsItsMessageIDOverRetriesAndParking(t *testing.T) {
	w := newWorld(t, Config{})
	w.store.add("k", "a")
	w.run(time.Second)
	w.broker.refuse = func(settle.Message) error { return errors.New("no answer") }
	w.resend(1, "e1#1")
	w.run(5 * time.Second)
	w.broker.refuse = refuseEvents(settle.ScopeRecord, "e1")
	w.run(2 * time.Second)
	if w.store.findParked("a", 1) == nil {
		t.Fatal("its key is not parked")
	}
	w.broker.refuse = nil
	w.kill()
	w.run(time.Hour)
	if got := w.messageIDs(); got != "[e1 e1#1]" {
		t.Errorf("sent %s", got)
	}
}
