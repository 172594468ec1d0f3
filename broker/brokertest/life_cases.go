package brokertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

var lifeCases = []testCase{
	{name: "Close while busy ends every call, and what was acknowledged is held", groups: []string{"busy"}, test: closeWhileBusy},
	{name: "kills of the broker under load lose nothing acknowledged and keep the order", needs: AbilityRestart, groups: []string{"shaken"}, test: restartUnderLoad},
}

func closeWhileBusy(t testing.TB, h Harness) {
	b := h.Again(t)
	g := newGroup(t, h, "busy")
	m := g.join(joining{broker: b})
	ctx, cancel := context.WithTimeout(context.Background(), 3*h.Patience)
	defer cancel()
	var mu sync.Mutex
	var held []settle.Message
	var receipts []settle.Receipt
	var publishers sync.WaitGroup
	for p := range 3 {
		publishers.Go(func() {
			for round := 0; ; round++ {
				batch := messages(h, fmt.Sprintf("p%d-%d-", p, round), 10*p+5, 5)
				for i, r := range b.Publish(ctx, batch) {
					if errors.Is(r.Err, settle.ErrClosed) || ctx.Err() != nil {
						return
					}
					if r.Err == nil {
						mu.Lock()
						held, receipts = append(held, batch[i]), append(receipts, r)
						mu.Unlock()
					}
				}
			}
		})
	}
	t.Cleanup(func() { // also when the case ends early
		_ = b.Close()
		publishers.Wait()
	})
	g.await("some events", func() bool { return len(g.all()) > 100 })
	closed := make(chan error, 1)
	go func() { closed <- b.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Errorf("Close: %v", err)
		}
	case <-time.After(h.Patience):
		t.Fatal("Close does not return")
	}
	if err := m.result(); !errors.Is(err, settle.ErrClosed) {
		t.Errorf("Subscribe returned %v", err)
	}
	ended := make(chan struct{})
	go func() {
		publishers.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(h.Patience):
		t.Fatal("publishers are not told that the broker is closed")
	}
	checkLogged(t, h, held, receipts)
}

func restartUnderLoad(t testing.TB, h Harness) {
	g := newGroup(t, h, "shaken")
	g.join(joining{name: "first"})
	g.join(joining{name: "second"})
	ctx, cancel := context.WithTimeout(context.Background(), 3*h.Patience)
	stop := make(chan struct{})
	halt := sync.OnceFunc(func() { close(stop) })
	sent := make([][]settle.Message, 2)
	var publishers sync.WaitGroup
	for p := range sent {
		publishers.Go(func() {
			for round := 0; ; round++ {
				select {
				case <-stop:
					return
				default:
				}
				batch := make([]settle.Message, 0, 40)
				for i := range 8 + 32*p { // one by one, and many at once
					batch = append(batch, message(h, fmt.Sprintf("p%d-%d", p, i), round+1))
				}
				if _, err := publishUntilHeld(ctx, h.Broker, batch); err != nil {
					t.Errorf("publish: %v", err) // the case waits for us, however it ends
					return
				}
				sent[p] = append(sent[p], batch...)
			}
		})
	}
	t.Cleanup(func() { // also when the case ends early
		halt()
		cancel()
		publishers.Wait()
	})
	for range 2 {
		before := len(g.all())
		g.await("events before the kill", func() bool { return len(g.all()) > before+100 })
		h.Restart(t)
		began, before := time.Now(), len(g.all())
		g.await("events after the kill", func() bool { return len(g.all()) > before })
		t.Logf("events flow %v after the broker is back", time.Since(began).Round(time.Millisecond))
	}
	halt()
	publishers.Wait()
	all := append(sent[0], sent[1]...)
	g.await("all events", func() bool {
		have := g.times()
		for _, m := range all {
			if have[m.Event.ID] == 0 {
				return false
			}
		}
		return true
	})
	checkOrder(t, "the group", g.order())
	checkOrder(t, "the log", events(h.Log(t)))
}
