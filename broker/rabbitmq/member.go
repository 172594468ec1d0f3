package rabbitmq

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
)

// balanceEvery is how often members look at who has which queue.
const balanceEvery = time.Second

// place is a partition of a topic.
type place struct {
	topic  string
	number int
}

// member is one membership of a group. Single active consumers keep their
// queues for ever, so members agree on their shares: each knows how many there
// are, gives away what it has too much, and takes what nobody has.
type member struct {
	b    *Broker
	s    settle.Subscription
	sink settle.Sink
	// lost is told when a worker has lost its queue.
	lost chan struct{}

	// workers and control belong to the goroutine of run.
	workers map[place]*worker
	// control is where members are counted; it is nil until all is declared.
	control *amqp.Channel
	// troubled is the last error that was told, until all goes well.
	troubled string

	mu sync.Mutex
	// positions counts what was delivered of each partition.
	positions map[place]int64
}

func newMember(b *Broker, s settle.Subscription, sink settle.Sink) *member {
	return &member{b: b, s: s, sink: sink, lost: make(chan struct{}, 1), workers: map[place]*worker{}, positions: map[place]int64{}}
}

// run is a member until ctx is done, on one connection after another.
func (m *member) run(ctx context.Context) {
	for {
		s, err := m.b.consuming.await(ctx)
		if err != nil {
			return
		}
		m.attend(ctx, s)
		m.end(s)
		if ctx.Err() != nil {
			return
		}
	}
}

// attend is a member on one connection, while it and ctx last.
func (m *member) attend(ctx context.Context, s *session) {
	for trouble := firstWait; ; {
		wait := balanceEvery
		err := m.tend(ctx, s)
		if err != nil {
			wait, trouble = trouble, min(2*trouble, lastWait)
		} else {
			trouble = firstWait
		}
		if err != nil && s.conn.IsClosed() { // its end is told of the connection
			select {
			case <-s.gone:
			case <-ctx.Done():
			}
			return
		}
		if err != nil || m.attached() {
			m.tell(err)
		}
		lost := m.lost
		if err != nil {
			lost = nil // nothing is quicker than to wait
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-lost:
		case <-s.gone:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// tell warns once of what goes wrong, and once that it does not any more.
func (m *member) tell(trouble error) {
	now := ""
	if trouble != nil {
		now = trouble.Error()
	}
	if now == m.troubled {
		return
	}
	m.troubled = now
	if now == "" {
		m.b.cfg.Log.Info("reading from RabbitMQ goes on", "consumer_group", m.s.Group)
		return
	}
	m.b.cfg.Log.Warn("reading from RabbitMQ fails and is tried again", "consumer_group", m.s.Group, "error", trouble)
}

// tend makes what is missing and takes or gives queues.
func (m *member) tend(ctx context.Context, s *session) error {
	lost, err := m.bury(s)
	if lost || m.control == nil || m.control.IsClosed() {
		if err := m.declare(s); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	for _, topic := range m.s.Topics {
		if err := m.balance(ctx, s, topic); err != nil {
			return err
		}
	}
	for _, w := range m.workers {
		if w.waits(m.b.cfg.Timeout) {
			return fmt.Errorf("queue %q does not answer and is waited for: it may have no leader, which rabbitmq-queues quorum_status tells", w.queue)
		}
	}
	return nil
}

// attached reports whether every queue that was taken has answered.
func (m *member) attached() bool {
	for _, w := range m.workers {
		if w.waits(0) {
			return false
		}
	}
	return true
}

// bury forgets workers that have ended. It reports whether some have lost their
// queues, and returns what the broker said of the first.
func (m *member) bury(s *session) (some bool, err error) {
	for _, at := range m.places() {
		w := m.workers[at]
		select {
		case <-w.ended:
			m.release(s, at)
			some = some || !w.idle
			if err == nil {
				err = w.err
			}
		default:
		}
	}
	return some, err
}

// declare makes the queues of the group, and counts this member.
func (m *member) declare(s *session) error {
	for _, topic := range m.s.Topics {
		if err := m.b.subscribable(s, topic, m.s.Group); err != nil {
			return err
		}
	}
	if m.control != nil && !m.control.IsClosed() {
		return nil
	}
	var err error
	m.control, err = s.channel(func(ch *amqp.Channel) error {
		for _, topic := range m.s.Topics {
			found, err := ch.Consume(membersName(topic, m.s.Group), "", true, false, false, false, nil)
			if err != nil {
				return err
			}
			m.b.owned.Go(func() {
				for range found { // nothing belongs here
				}
				_ = ch.Close() // the queue was deleted, and this member is not counted any more
			})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("join group %q: %w", m.s.Group, err)
	}
	return nil
}

// balance takes or gives queues of a topic until this member has its share.
func (m *member) balance(ctx context.Context, s *session, topic string) error {
	members, err := m.consumers(s, membersName(topic, m.s.Group))
	if err != nil {
		return err
	}
	mine := m.of(topic)
	share := shareOf(m.b.cfg.Partitions, members)
	for _, at := range mine[min(share, len(mine)):] {
		m.give(s, at)
	}
	for n := 0; n < m.b.cfg.Partitions && len(mine) < share && ctx.Err() == nil; n++ {
		at := place{topic, n}
		if m.workers[at] != nil {
			continue
		}
		taken, err := m.take(ctx, s, at)
		if err != nil {
			return err
		}
		if taken {
			mine = append(mine, at)
		}
	}
	return nil
}

// shareOf is how many of n partitions a member has at most. A member that can't
// be counted yet counts.
func shareOf(n, members int) int { return (n + max(members, 1) - 1) / max(members, 1) }

func (m *member) of(topic string) []place {
	return slices.DeleteFunc(m.places(), func(at place) bool { return at.topic != topic })
}

// places are what this member has, in order.
func (m *member) places() []place {
	return slices.SortedFunc(maps.Keys(m.workers), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.number, b.number))
	})
}

// consumers counts the active ones of a queue.
func (m *member) consumers(s *session, queue string) (n int, err error) {
	err = s.within(func() error {
		q, err := m.control.QueueDeclarePassive(queue, true, false, false, false, nil)
		n = q.Consumers
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look at queue %q: %w", queue, explain(err))
	}
	return n, nil
}

// take begins to work on a partition that nobody has.
func (m *member) take(ctx context.Context, s *session, at place) (bool, error) {
	queue := queueName(at.topic, m.s.Group, at.number)
	if n, err := m.consumers(s, queue); n > 0 || err != nil {
		return false, err
	}
	if locked, err := m.b.lock(s, queue); !locked {
		return false, err
	}
	m.workers[at] = newWorker(ctx, m, s, at, queue)
	return true, nil
}

// give lets another member have a partition: the delivery in flight may end,
// and is acknowledged, before the queue is left.
func (m *member) give(s *session, at place) {
	m.stop([]*worker{m.workers[at]})
	m.release(s, at)
}

// release gives up the partition of a worker that has ended.
func (m *member) release(s *session, at place) {
	delete(m.workers, at)
	m.b.unlock(s, queueName(at.topic, m.s.Group, at.number))
}

// end leaves the group on this connection.
func (m *member) end(s *session) {
	var all []*worker
	for _, w := range m.workers {
		all = append(all, w)
	}
	m.stop(all)
	for _, at := range m.places() {
		m.release(s, at)
	}
	if m.control != nil {
		_ = s.within(m.control.Close)
		m.control = nil
	}
}

// stop ends workers: nothing more is delivered, what is in flight may take a
// while, and is cancelled and waited for then.
func (m *member) stop(workers []*worker) {
	for _, w := range workers {
		w.stop()
	}
	deadline := time.NewTimer(m.b.cfg.DrainTimeout)
	defer deadline.Stop()
	for _, w := range workers {
		select {
		case <-w.ended:
		case <-deadline.C:
			for _, w := range workers {
				w.cancel()
			}
			<-w.ended
		}
	}
}

// next counts a record of a partition.
func (m *member) next(at place) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.positions[at]++
	return m.positions[at]
}
