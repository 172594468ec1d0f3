package bridge

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Bridge brings the dead letters of one group into a store, and sends back what
// people have ordered. Any number of processes may run one for the same group:
// one leads, the others stand by. It is run once.
type Bridge struct {
	group  string
	store  Store
	source Source
	cfg    Config
	log    *slog.Logger

	inputs chan input
	work   sync.WaitGroup

	mu    sync.Mutex
	stats Stats
}

// New returns a bridge of a group from its source into a store. It does no I/O.
func New(group string, store Store, source Source, cfg Config) *Bridge {
	cfg = cfg.withDefaults()
	return &Bridge{group: group, store: store, source: source, cfg: cfg, log: cfg.Logger.With("consumer_group", group), inputs: make(chan input)}
}

// Stats returns what the bridge has done. It may be called at any time.
func (b *Bridge) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

// endWithin bounds each step of an end: what goes back at that time, the record
// of it, and giving the lease back.
const endWithin = 5 * time.Second

// Run bridges until ctx is done, then waits for what is under way, gives the
// lease back and returns nil. A store or a broker that does not answer is tried
// again for ever, and nothing is acknowledged meanwhile. A bridge has no other
// end; an error is that of giving the lease back, which then runs out by itself.
func (b *Bridge) Run(ctx context.Context) error {
	m := newMachine(b.cfg)
	working, stop := context.WithCancel(ctx)
	defer stop()
	hands := &hands{b: b, ctx: working}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		var in input
		select {
		case <-ctx.Done():
			continue
		case in = <-b.inputs:
		case <-timer.C:
		}
		for _, c := range m.step(time.Now(), in) {
			hands.do(c)
		}
		b.tell(m.stats)
		timer.Reset(max(0, time.Until(m.next())))
	}
	stop()
	hands.wait(m)
	lease := m.lease
	m.lose(time.Now())
	b.tell(m.stats)
	if !lease.Held {
		return nil
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	return b.store.Resign(ending, lease)
}

// tell publishes the figures, and says once what has changed.
func (b *Bridge) tell(now Stats) {
	b.mu.Lock()
	was := b.stats
	b.stats = now
	b.mu.Unlock()
	if now.Leading != was.Leading {
		b.log.Info("bridge of dead letters", "leading", now.Leading)
	}
	if now.Trouble != "" && now.Trouble != was.Trouble {
		b.log.Warn("dead letters are not bridged; trying again", "unreachable", now.Trouble, "error", now.Cause)
	}
	if now.Kept > was.Kept {
		b.log.Info("dead letters of a consumer that is not ours were bridged", "letters", now.Kept-was.Kept)
	}
}

// hands carry out commands, each in a goroutine of its own, and tell the machine
// what came of it.
type hands struct {
	b       *Bridge
	ctx     context.Context
	stopped context.CancelFunc // ends what reads
}

// wait waits for what is under way. What has gone back meanwhile is recorded, so
// that it does not go again.
func (h *hands) wait(m *machine) {
	done := make(chan struct{})
	go func() {
		h.b.work.Wait()
		close(done)
	}()
	for {
		select {
		case in := <-h.b.inputs:
			if back, is := in.(sent); is && back.err == nil {
				m.sent(time.Now(), back)
			}
			if in, is := in.(marked); is {
				m.marked(time.Now(), in)
			}
		case <-done:
			h.record(m)
			return
		}
	}
}

func (h *hands) record(m *machine) {
	if m.unmarked == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.ctx), endWithin)
	defer cancel()
	if err := h.b.store.Mark(ctx, m.lease, []Mark{*m.unmarked}); err != nil {
		h.b.log.Warn("that a dead letter went back is not recorded: it goes again, under the same id", "id", m.unmarked.ID, "error", err)
	}
}

func (h *hands) do(c command) {
	b := h.b
	switch c := c.(type) {
	case leadNow:
		h.run(func(ctx context.Context) input {
			lease, err := b.store.Lead(ctx, b.group, b.cfg.Owner, b.cfg.LeaseTTL)
			return led{lease, err}
		}, b.cfg.LeaseTTL)
	case readNow:
		reading, stop := context.WithCancel(h.ctx)
		h.stopped = stop
		b.work.Go(func() {
			defer stop()
			b.inputs <- ended{b.read(reading, c.lease)}
		})
	case stopReading:
		h.stopped()
	case lookNow:
		h.run(func(ctx context.Context) input {
			ordered, err := b.store.Ordered(ctx, b.group, ordersAtOnce)
			return found{ordered, err}
		}, 2*b.cfg.LeaseTTL)
	case sendNow:
		h.run(func(ctx context.Context) input {
			ctx, cancel := lasting(ctx, b.cfg.ReturnTimeout)
			defer cancel()
			err := b.source.Return(ctx, c.order.Return)
			b.cfg.Crash("bridge.after_return")
			// Crash here: the broker may have it and nothing says so; it is sent again,
			// under the same id.
			return sent{c.order, err}
		}, b.cfg.ReturnTimeout)
	case markNow:
		h.run(func(ctx context.Context) input {
			err := b.store.Mark(ctx, c.lease, []Mark{c.mark})
			b.cfg.Crash("bridge.after_mark")
			return marked{c.mark, err}
		}, 2*b.cfg.LeaseTTL)
	}
}

func (h *hands) run(f func(context.Context) input, within time.Duration) {
	h.b.work.Go(func() {
		ctx, cancel := context.WithTimeout(h.ctx, within)
		defer cancel()
		h.b.inputs <- f(ctx)
	})
}

// lasting outlives ctx by endWithin.
func lasting(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(endWithin):
			cancel()
		case <-last.Done():
		}
	})
	return last, func() {
		stop()
		cancel()
	}
}

// errNotLeading is why letters are not taken.
var errNotLeading = errors.New("another bridge leads")

// read takes letters in under a lease until ctx is done or the source fails.
func (b *Bridge) read(ctx context.Context, lease Lease) error {
	err := b.source.Letters(ctx, func(ctx context.Context, letters []Letter) error {
		fresh, err := b.store.Keep(ctx, lease, letters)
		if ctx.Err() != nil && err != nil {
			return errNotLeading
		}
		b.inputs <- kept{len(letters), fresh, err}
		if err != nil {
			return err
		}
		b.cfg.Crash("bridge.before_ack")
		// Crash here: the store has them, the broker was not told: they come again
		// and are passed over.
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
