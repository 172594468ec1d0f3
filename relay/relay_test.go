package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/settlemq/settle"
)

func runRelay(t *testing.T, r *Relay) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(20 * time.Second):
			return errors.New("Run does not return")
		}
	}
}

func TestARelayCarriesEventsAndEndsWithoutATrace(t *testing.T) {
	defer goleak.VerifyNone(t)
	store, broker := newFakeStore(time.Now), &fakeBroker{}
	sent := make(chan Sent, 100)
	r := New(store, broker, Config{Name: "orders", Logger: quiet(), OnSent: func(s []Sent) {
		for _, one := range s {
			sent <- one
		}
	}})
	stop := runRelay(t, r)
	for i := range 20 {
		store.add(fmt.Sprint("k", i%3), "a")
	}
	r.Wake()
	for range 20 {
		select {
		case s := <-sent:
			if s.EventID == "" || s.Destination != "a" || s.At.Offset == 0 {
				t.Errorf("sent %+v", s)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("not sent in time")
		}
	}
	if s := r.Stats(); s.Published != 20 || !s.Leading || s.Pending != 0 {
		t.Errorf("stats %+v", s)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if !store.clean {
		t.Error("the lease was not given back")
	}
	if m := broker.log[0]; m.Source != "orders" || m.Epoch != 1 || m.ID != "e1" {
		t.Errorf("message %+v", m)
	}
	if len(store.wrong) > 0 {
		t.Error(store.wrong)
	}
}

// slowBroker answers when told to.
type slowBroker struct {
	fakeBroker
	begun  chan struct{}
	finish chan struct{}
}

func (b *slowBroker) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	close(b.begun)
	select {
	case <-b.finish:
	case <-ctx.Done():
	}
	return b.fakeBroker.Publish(ctx, batch)
}

func TestStoppingWaitsForTheBatchInFlightAndCommitsIt(t *testing.T) {
	defer goleak.VerifyNone(t)
	store := newFakeStore(time.Now)
	broker := &slowBroker{begun: make(chan struct{}), finish: make(chan struct{})}
	store.add("k", "a")
	stop := runRelay(t, New(store, broker, Config{Logger: quiet()}))
	<-broker.begun
	time.AfterFunc(20*time.Millisecond, func() { close(broker.finish) })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if !store.rows[1].sent || !store.clean {
		t.Errorf("sent %v, resigned %v", store.rows[1].sent, store.clean)
	}
}

func TestARelayStopsWithTheErrorThatWaitingDoesNotCure(t *testing.T) {
	defer goleak.VerifyNone(t)
	store := newFakeStore(time.Now)
	store.check = Checkpoint{Number: 1, Readers: []Reader{{Cursor: 5, CursorEvent: "e5"}}}
	err := New(store, &fakeBroker{}, Config{Logger: quiet()}).Run(t.Context())
	if !errors.Is(err, settle.ErrNewGeneration) {
		t.Errorf("Run: %v", err)
	}
}

func TestCrashPointsAreReachedInOrder(t *testing.T) {
	defer goleak.VerifyNone(t)
	store := newFakeStore(time.Now)
	points := make(chan string, 1000)
	store.add("k", "a")
	done := make(chan struct{})
	stop := runRelay(t, New(store, &fakeBroker{}, Config{
		Logger: quiet(), Crash: func(p string) { points <- p }, OnSent: func([]Sent) { close(done) },
	}))
	<-done
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	close(points)
	var got []string
	for p := range points {
		if !slices.Contains(got, p) {
			got = append(got, p)
		}
	}
	// The first checkpoint is committed before the first poll.
	want := []string{"relay.before_commit", "relay.after_commit", "relay.after_poll", "relay.before_publish", "relay.after_publish"}
	if !slices.Equal(got, want) {
		t.Errorf("points %v, want %v", got, want)
	}
}

// ringing is a store with a doorbell.
type ringing struct {
	*fakeStore
	ring chan struct{}
}

func (s *ringing) Wait(ctx context.Context, limit time.Duration) error {
	select {
	case <-s.ring:
	case <-time.After(limit):
	case <-ctx.Done():
	}
	return ctx.Err()
}

func TestADoorbellEndsTheWaitForTheNextPoll(t *testing.T) {
	defer goleak.VerifyNone(t)
	store := &ringing{fakeStore: newFakeStore(time.Now), ring: make(chan struct{})}
	sent := make(chan struct{})
	stop := runRelay(t, New(store, &fakeBroker{}, Config{
		Logger: quiet(), MaxIdle: time.Hour, LeaseTTL: 30 * time.Second, OnSent: func([]Sent) { close(sent) },
	}))
	store.add("k", "a")
	select {
	case store.ring <- struct{}{}:
	case <-time.After(10 * time.Second):
		t.Fatal("nobody waits at the door")
	}
	select {
	case <-sent:
	case <-time.After(10 * time.Second):
		t.Fatal("not sent")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// rudeBroker gives no receipts.
type rudeBroker struct{ asked chan struct{} }

func (b *rudeBroker) Publish(context.Context, []settle.Message) []settle.Receipt {
	select {
	case b.asked <- struct{}{}:
	default:
	}
	return nil
}

func TestABrokerThatBreaksItsContractLosesNothing(t *testing.T) {
	defer goleak.VerifyNone(t)
	store := newFakeStore(time.Now)
	store.add("k", "a")
	broker := &rudeBroker{asked: make(chan struct{})}
	stop := runRelay(t, New(store, broker, Config{Logger: quiet()}))
	<-broker.asked
	<-broker.asked
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if store.rows[1].sent || len(store.parked) > 0 {
		t.Error("a missing receipt counts as an answer")
	}
}
