package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

// probeEvery is how often a master that is away is asked whether it is back; one that
// the name servers do not know is looked for up to seekEvery apart.
const (
	probeEvery = 100 * time.Millisecond
	seekEvery  = 2 * time.Second
)

// errNoMaster is why a broker is away that name servers do not know any more.
var errNoMaster = errors.New("the name servers know no master of it")

// nodes knows which masters are away: down, or hanging. What is for one of them
// fails at once, rather than after a time-out each, until it answers again.
type nodes struct {
	b *Broker

	mu   sync.Mutex
	away map[string]*absence
}

// absence is that of one master.
type absence struct {
	why error
	// over is closed when it answers.
	over chan struct{}
}

// lost notes that a master has not answered, unless the caller's own ctx has ended
// before it had the time, and has it asked until it does. An answer that refuses is
// one.
func (n *nodes) lost(ctx context.Context, broker string, err error) {
	var refused *remoting.Refusal
	if err == nil || ctx.Err() != nil || errors.As(err, &refused) || errors.Is(err, remoting.ErrClosed) {
		return
	}
	n.b.routes.doubt()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away[broker] != nil || n.b.life.Err() != nil {
		return
	}
	a := &absence{why: err, over: make(chan struct{})}
	n.away[broker] = a
	n.b.cfg.Log.Warn("a broker does not answer; what is for it waits", "broker", broker, "error", err)
	n.b.owned.Go(func() { n.probe(broker, a) })
}

func (n *nodes) probe(broker string, a *absence) {
	began := time.Now()
	for wait := probeEvery; pause(n.b.life, wait); {
		addr := n.b.routes.masters()[broker]
		if addr == "" {
			n.b.routes.doubt()
			wait = min(2*wait, seekEvery)
			continue
		}
		wait = probeEvery
		ctx, cancel := context.WithTimeout(n.b.life, n.b.cfg.Timeout)
		err := n.b.wire.Heartbeat(ctx, addr, n.b.cfg.Name)
		cancel()
		var refused *remoting.Refusal
		if err == nil || errors.As(err, &refused) {
			n.b.cfg.Log.Info("a broker answers again", "broker", broker, "away", time.Since(began).Round(time.Millisecond).String())
			break
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.away, broker)
	close(a.over)
}

// why returns why a master is away, nil when it is not known to be.
func (n *nodes) why(broker string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.away[broker]; a != nil {
		return fmt.Errorf("broker %q does not answer, and is asked until it does: %w", broker, a.why)
	}
	return nil
}

// back returns what is closed when a master answers again, nil when it is not known
// to be away.
func (n *nodes) back(broker string) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.away[broker]; a != nil {
		return a.over
	}
	return nil
}
