package postgres

import (
	"context"
	"testing"
	"time"
)

// waiting starts Wait on l and returns how long it took.
func waiting(t *testing.T, l *Log, limit time.Duration) <-chan time.Duration {
	t.Helper()
	took := make(chan time.Duration, 1)
	begun := time.Now()
	go func() {
		if err := l.Wait(t.Context(), limit); err != nil {
			t.Error(err)
		}
		took <- time.Since(begun)
	}()
	return took
}

const patience = 20 * time.Second

func TestAnIdleRelayIsWokenByAnotherProcess(t *testing.T) {
	at := DatabaseForTest(t)
	relays, producer := OpenForTest(t, at, Config{}), OpenForTest(t, at, Config{})
	l := relays.Log()
	// The listener is there once its first wait has ended.
	if err := l.Wait(t.Context(), 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	took := waiting(t, l, patience)
	if err := producer.Ring(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := <-took; d >= patience/2 {
		t.Errorf("woken after %v", d)
	}
}

func TestAnIdleRelayIsWokenByItsOwnProcessWithoutTheDatabase(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	done := waiting(t, s.Log(), patience)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a notification could not be sent
	for {
		if err := s.Ring(ctx); err == nil {
			break // it waits by now
		}
		time.Sleep(quiet)
	}
	if d := <-done; d >= patience/2 {
		t.Errorf("woken after %v", d)
	}
}

func TestABusyProducerAsksForNoNotifications(t *testing.T) {
	b := newBell()
	now := time.Now()
	told := 0
	for i := range 1000 {
		if b.ring(now.Add(time.Duration(i) * time.Millisecond)) {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d notifications for a thousand events in a second, want that of the first", told)
	}
	if !b.ring(now.Add(2 * time.Second)) {
		t.Error("after a second of quiet nobody is told")
	}
}

func TestAWaitEndsWithItsContextAndAtItsLimit(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	l := s.Log()
	if err := l.Wait(t.Context(), 5*time.Millisecond); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Wait(ctx, patience) }()
	cancel()
	if err := <-ended; err == nil {
		t.Error("a wait whose context has ended says nothing")
	}
	// The connection still hears.
	took := waiting(t, l, patience)
	if _, err := s.own.Exec(t.Context(), notify); err != nil {
		t.Fatal(err)
	}
	if d := <-took; d >= patience/2 {
		t.Errorf("woken after %v", d)
	}
}

func TestANotificationWakesTheRelaysOfAllLanesOfAProcess(t *testing.T) {
	at := DatabaseForTest(t)
	relays, producer := OpenForTest(t, at, Config{}), OpenForTest(t, at, Config{})
	if err := relays.Log().Wait(t.Context(), 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	var all []<-chan time.Duration
	for range 3 {
		all = append(all, waiting(t, relays.Log(), patience))
	}
	for there := 0; there < len(all); time.Sleep(time.Millisecond) {
		relays.bell.mu.Lock()
		there = relays.bell.leads
		relays.bell.mu.Unlock()
	}
	if err := producer.Ring(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, took := range all {
		if d := <-took; d >= patience/2 {
			t.Errorf("one is woken after %v", d)
		}
	}
}
