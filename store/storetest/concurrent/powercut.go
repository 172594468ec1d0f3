package concurrent

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/relay"
)

// Mortal is an outbox on a server that the test may kill, whose commits do not
// wait for the disk.
type Mortal[Tx any] struct {
	Outbox[Tx]
	Kill func()
	// Start returns when the server answers.
	Start func()
}

// hasty believes that all it reads is on the disk.
type hasty struct{ relay.Store }

func (h hasty) Poll(ctx context.Context, q relay.PollQuery) (relay.Page, error) {
	p, err := h.Store.Poll(ctx, q)
	p.NotDurable = false
	return p, err
}

// NothingTakenBack kills a server again and again under its relay. What was
// published must be in the table, and what is in the table published; a relay
// that does not look whether a row is on the disk is found out. open returns an
// empty outbox each time: a careless one loses as much as it can.
func NothingTakenBack[Tx any](t *testing.T, open func(t testing.TB, careless bool) Mortal[Tx]) {
	m := open(t, false)
	vanished, missing := cutPower(t, m, m.Logs[0], 6)
	if len(vanished) > 0 || len(missing) > 0 {
		t.Errorf("published and gone: %q; never published: %q", vanished, missing)
	}
	for range 5 {
		m := open(t, true)
		if vanished, _ := cutPower(t, m, hasty{m.Logs[0]}, 3); len(vanished) > 0 {
			return
		}
	}
	t.Error("a relay that does not look whether a row is on the disk loses nothing either: the test proves nothing")
}

// cutPower returns what was published and is not in the table, and what is in
// the table and was never published.
func cutPower[Tx any](t *testing.T, m Mortal[Tx], log relay.Store, times int) (vanished, missing []string) {
	t.Helper()
	b := memory.New(memory.Config{})
	defer func() { _ = b.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	r := relay.New(log, b, relay.Config{LeaseTTL: 3 * time.Second})
	go func() { ended <- r.Run(ctx) }()
	for cut := range times {
		stop := make(chan struct{})
		var group sync.WaitGroup
		for w := range 4 {
			group.Go(func() { m.appendHastily(ctx, fmt.Sprintf("%d-%d", cut, w), stop) })
		}
		time.Sleep(700 * time.Millisecond)
		m.Kill()
		close(stop)
		group.Wait()
		m.Start()
	}
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		vanished, missing = Compare(t, m.DB, b.Log(settle.DefaultTopic))
		if len(missing) == 0 || time.Now().After(until) {
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("relay: %v", err)
	}
	return vanished, missing
}

// appendHastily ends with the first error: the server is gone.
func (m *Mortal[Tx]) appendHastily(ctx context.Context, name string, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		err := m.in(ctx, func(tx Tx) error {
			if m.Hasty != "" {
				if err := m.Exec(ctx, tx, m.Hasty); err != nil {
					return err
				}
			}
			return m.append(ctx, tx, fmt.Sprintf("%s-%d", name, i), "a", name, 0)
		})
		if err != nil {
			return
		}
	}
}
