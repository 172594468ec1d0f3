package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
)

// transactionTime is how long the cluster keeps a transaction open whose
// producer is silent. Consumers that read what is committed wait that long,
// unless another takes over before.
const transactionTime = 10 * time.Second

// led names what a relay leads.
type led struct {
	outbox string
	lane   int
}

// transactionalID is that of what a relay leads: the same in every process, and
// nobody else's.
func (l led) transactionalID() string {
	return "settle." + l.outbox + "." + strconv.Itoa(l.lane)
}

// fence publishes for what one relay leads, in transactions of a producer that
// the cluster has one of at a time: who begins as that producer ends whatever
// another had under way, for ever.
//
// To have begun proves nothing: a relay that slept past its lease can do so, and
// puts the one that has replaced it out. So whoever begins publishes nothing
// that was decided before. The relay loads its state anew, which only the holder
// of the lease can, and what it publishes then has a higher Load. The relay that
// was put out wrongly does the same, and goes on.
type fence struct {
	led led
	// turn is held by the transaction under way.
	turn chan struct{}
	// with is who publishes, closed by end; its client is nil while nobody does.
	with producer
	end  func()
	// epoch is the lease for which it has begun, and load that of the message
	// which made it: only what was decided later is published.
	epoch, load int64
}

// fence returns the one of what m's relay leads.
func (b *Broker) fence(m settle.Message) *fence {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := led{m.Lead.Outbox, m.Lead.Lane}
	f := b.fences[l]
	if f == nil {
		f = &fence{led: l, turn: make(chan struct{}, 1)}
		b.fences[l] = f
	}
	return f
}

// endFences closes all producers, when no call is in flight any more.
func (b *Broker) endFences() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.fences {
		f.drop()
	}
}

// fenced publishes a batch of a relay's.
func (p *publication) fenced() {
	all := make([]int, len(p.batch))
	for i := range all {
		all[i] = i
	}
	if p.batch[0].Lead.Outbox == "" {
		p.failAll(all, errors.New("not sent: the relay has no name, and a fence needs one that no other relay on the cluster has; relay.Config.Name gives it"))
		return
	}
	f := p.b.fence(p.batch[0])
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-p.ctx.Done():
		p.failAll(all, fmt.Errorf("not sent: another transaction of %s is under way: %w", f.led.transactionalID(), context.Cause(p.ctx)))
		return
	}
	if err := f.admit(p.ctx, p.b, p.batch[0]); err != nil {
		p.failAll(all, err)
		return
	}
	p.declare()
	f.transact(p, all)
	p.letGo()
}

// admit lets a batch pass that was decided after this process began as the
// producer of what it is for. It begins when it has not.
func (f *fence) admit(ctx context.Context, b *Broker, m settle.Message) error {
	switch {
	case m.Epoch < f.epoch, m.Epoch == f.epoch && m.Lead.Load <= f.load:
		return f.refused("the batch was decided before this process began to publish")
	case f.with.cl != nil && m.Epoch == f.epoch:
		return nil
	}
	return f.begin(ctx, b, m)
}

func (f *fence) refused(why string) error {
	return &settle.PublishError{Scope: settle.ScopeBroker, Err: fmt.Errorf("transactional id %s: %s: %w", f.led.transactionalID(), why, settle.ErrFenced)}
}

// begin makes this process the producer, and takes back what another had under
// way. It always returns an error.
func (f *fence) begin(ctx context.Context, b *Broker, m settle.Message) error {
	f.drop()
	cl, err := kgo.NewClient(b.transacting(f.led.transactionalID())...)
	if err != nil {
		return err
	}
	// Crash here: nobody is the producer, and nothing of before comes through.
	if _, _, err := cl.ProducerID(ctx); err != nil {
		cl.Close()
		return f.explain(err)
	}
	f.with, f.end = producer{cl: cl, known: map[string]bool{}}, sync.OnceFunc(cl.Close)
	f.epoch, f.load = m.Epoch, m.Lead.Load
	b.cfg.Log.Info("publishing to Kafka in transactions; who did so before does no more", "transactional_id", f.led.transactionalID(), "epoch", m.Epoch)
	return f.refused("this process has just begun to publish")
}

// drop ends the producer: what it has under way is taken back when somebody
// begins anew, or by the cluster in time.
func (f *fence) drop() {
	if f.end != nil {
		f.end()
	}
	f.with, f.end = producer{}, nil
}

func (f *fence) explain(err error) error {
	if errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		return fmt.Errorf("this user may not use transactional id %s; kafka-acls.sh --add --producer --transactional-id settle. --resource-pattern-type prefixed gives the right: %w", f.led.transactionalID(), err)
	}
	return err
}

// transact publishes messages in one transaction. When some are refused all are
// taken back, and those that are not to blame go in transactions of their own.
func (f *fence) transact(p *publication, of []int) {
	for {
		if of = p.open(of); len(of) == 0 {
			return
		}
		if f.with.cl == nil {
			p.failAll(of, f.refused("this process publishes no more"))
			return
		}
		part := p.of(of, f.with)
		err := f.attempt(part)
		switch {
		case err == nil:
			p.take(of, part)
			return
		case isFenced(err):
			f.load = p.batch[0].Lead.Load
			p.b.cfg.Log.Warn("another process publishes to Kafka in this one's place; what was not committed is taken back", "transactional_id", f.led.transactionalID())
			p.failAll(of, f.refused("another process has begun to publish"))
			f.drop()
		case p.failTopics(of, part):
		case settle.ScopeOf(classify(err)) != settle.ScopeRecord || len(of) == 1:
			p.failAll(of, err)
		default:
			f.transact(p, of[:len(of)/2])
			of = of[len(of)/2:]
		}
	}
}

// attempt sends a part in one transaction, and returns nil when it is committed.
func (f *fence) attempt(part *publication) error {
	cl := f.with.cl
	if err := cl.BeginTransaction(); err != nil {
		f.drop()
		return err
	}
	// The client does not give up what may be written; the end of the wait does.
	stop := context.AfterFunc(part.ctx, f.end)
	part.produce()
	if part.torn == nil {
		// Crash here: nothing of it is visible, the next producer takes it back.
		err := cl.EndTransaction(part.ctx, kgo.TryCommit)
		// Crash here: all of it is visible and nobody knows. It is published again
		// under the same ids.
		if !stop() || err != nil {
			f.drop()
		}
		if err != nil {
			return fmt.Errorf("whether the transaction was committed is not known: %w", f.explain(err))
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(part.ctx), part.b.cfg.Timeout)
	defer cancel()
	if err := cl.EndTransaction(ctx, kgo.TryAbort); err != nil || !stop() || part.madeAnew() {
		f.drop()
	}
	return f.explain(part.torn)
}

// isFenced reports whether the cluster takes nothing of this producer any more.
func isFenced(err error) bool {
	return isAny(err, kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.TransactionCoordinatorFenced)
}
