package springcontract_test

import (
	"slices"
	"testing"
	"time"
)

// TestTheServicesRelayHandsOverToSettleAndBackWhileOrdersComeIn lets one
// process of the service take orders all the time, while another one relays,
// then Settle does, then again the service's relay.
func TestTheServicesRelayHandsOverToSettleAndBackWhileOrdersComeIn(t *testing.T) {
	d := newDatabase(t)
	takes, relays := start(t, d), start(t, d, "relay")
	orders := order(t, takes, "shift", 400*time.Millisecond)
	orders.more(3 * customers)
	adopt(t, d)
	relays.stop(t)
	first := len(sentBySpring(t, d))
	if first == 0 {
		t.Fatal("the service's relay has sent nothing")
	}

	dir := t.TempDir()
	r := serve(t, d, dir)
	orders.more(5 * customers)
	until(t, "Settle sends", func() bool { return r.read().Published > 10*customers })
	r.stop(t)

	relays = start(t, d, "relay")
	orders.more(3 * customers)
	want := orders.stop(t)
	d.await(t, "all is sent", allSent)
	relays.stop(t)

	// It has nothing to send when it comes again, but for what is new.
	r = serve(t, d, dir)
	last := takes.create(t, "last", "1.00")
	want["last"] = []string{last.EventID}
	d.await(t, "all is sent", allSent)

	// Of a key, what the first shift has sent comes before the second's, and so on.
	sent, published := sentBySpring(t, d), readTopic(t, r.broker)
	if len(sent) == first {
		t.Error("the service's relay has sent nothing when it was its turn again")
	}
	all := slices.Concat(sent[:first], published[:len(published)-1], sent[first:], published[len(published)-1:])
	expect(t, all, want, d.events(t))
	_, again := firstCopies(all)
	t.Logf("%d events by the service, %d by Settle, %d by the service again; %d twice", first, len(published), len(sent)-first, again)
	if again > 0 {
		t.Errorf("%d events were sent by both, though each ended in order", again)
	}
}
