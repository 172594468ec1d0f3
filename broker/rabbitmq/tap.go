package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
)

// Tap reaches a topic without anything that Publish and Subscribe promise:
// drills and checks read back what came to it, and write what a foreign program
// might. RabbitMQ has no log that can be read back; Keep makes one beside the
// queues of the groups. Its methods may be called from several goroutines.
type Tap struct {
	b *Broker

	mu  sync.Mutex
	now *session
	// planted is where each message id was stored, sought where those begin that
	// may be stored.
	planted map[string]settle.Coordinates
	sought  map[string]int64
	// marks is how many messages the log holds that are the tap's.
	marks int64
}

const (
	// tapTimeout bounds the making of a group's queues, which a busy cluster takes
	// its time for.
	tapTimeout = time.Minute
	// hostTimeout is how long one node may take to let us in.
	hostTimeout = 5 * time.Second
)

// keptFor is how long the log keeps what comes: one that outlives its drill
// does not grow for ever.
const keptFor = "24h"

// logName is the queue that keeps what comes to a topic. It is a stream: it can
// be read as often as one likes, from any place, and gives each message a
// number, where a quorum queue forgets what was read. Like a quorum queue it
// has a copy on each node, and a majority of them has what is confirmed.
func logName(topic string) string { return topic + ".log" }

// OpenTap makes a tap for the broker at url. It connects when it is used.
func OpenTap(url string) (*Tap, error) {
	at, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	return &Tap{b: newBroker(at, Config{Timeout: tapTimeout}), planted: map[string]settle.Coordinates{}, sought: map[string]int64{}}, nil
}

// Close ends the connection.
func (t *Tap) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != nil {
		_ = t.now.conn.CloseDeadline(time.Now().Add(time.Second))
		_ = t.now.wire.Close()
		t.now = nil
	}
	return nil
}

// session returns the connection, made anew if it was lost.
func (t *Tap) session(ctx context.Context) (*session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != nil && !t.now.conn.IsClosed() {
		return t.now, nil
	}
	t.now = nil
	var failed error
	for _, host := range t.b.at.hosts {
		one, cancel := context.WithTimeout(ctx, hostTimeout)
		s, err := t.b.dial(one, host, "tap")
		cancel()
		if err == nil {
			t.now = s
			return s, nil
		}
		failed = errors.Join(failed, fmt.Errorf("connect to RabbitMQ at %s: %w", host, explainRefusal(err, t.b.at)))
	}
	return nil, failed
}

// with runs requests on a channel of their own. The end of ctx takes the
// connection with it: a broker that does not answer is not waited for.
func (t *Tap) with(ctx context.Context, requests func(ch *amqp.Channel) error) error {
	s, err := t.session(ctx)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = s.wire.Close() })()
	if err := t.b.alone(s, requests); err != nil {
		return errors.Join(context.Cause(ctx), explain(err))
	}
	return nil
}

// Ready returns nil if the broker answers.
func (t *Tap) Ready(ctx context.Context) error {
	return t.with(ctx, func(*amqp.Channel) error { return nil })
}

// Keep makes a topic, the queues of groups, and a log of what comes from now
// on. It may be called again.
func (t *Tap) Keep(ctx context.Context, topic string, groups []string) error {
	s, err := t.session(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.wire.Close() })
	err = t.b.declare(s, topic, groups)
	stop()
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	err = t.with(ctx, func(ch *amqp.Channel) error {
		if _, err := ch.QueueDeclare(logName(topic), true, false, false, false, amqp.Table{"x-queue-type": "stream", "x-max-age": keptFor}); err != nil {
			return err
		}
		return ch.QueueBind(logName(topic), "#", topic, false, nil)
	})
	if err != nil {
		return fmt.Errorf("keep what comes to topic %q: %w", topic, err)
	}
	return nil
}

// Forget removes the log of a topic.
func (t *Tap) Forget(ctx context.Context, topic string) error {
	return t.with(ctx, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(logName(topic), false, false, false)
		return err
	})
}

// Remove deletes a topic and its log, and groups with all that waits for them.
// What is gone is left at that.
func (t *Tap) Remove(ctx context.Context, topic string, groups []string) error {
	failed := t.Forget(ctx, topic)
	exchanges := []string{topic}
	for _, group := range groups {
		exchanges = append(exchanges, groupName(topic, group))
		for n := 0; failed == nil; n++ {
			there, err := t.has(ctx, queueName(topic, group, n))
			if failed = err; !there {
				break
			}
			failed = t.delete(ctx, queueName(topic, group, n))
		}
		for _, queue := range []string{deadName(topic, group), membersName(topic, group)} {
			failed = errors.Join(failed, t.delete(ctx, queue))
		}
	}
	failed = errors.Join(failed, t.with(ctx, func(ch *amqp.Channel) error {
		for _, name := range exchanges {
			if err := ch.ExchangeDelete(name, false, false); err != nil {
				return err
			}
		}
		return nil
	}))
	if failed != nil {
		return fmt.Errorf("delete topic %q with its groups: %w", topic, failed)
	}
	return nil
}

func (t *Tap) has(ctx context.Context, queue string) (bool, error) {
	err := t.with(ctx, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	})
	if code(err) == amqp.NotFound {
		return false, nil
	}
	return err == nil, err
}

func (t *Tap) delete(ctx context.Context, queue string) error {
	return t.with(ctx, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(queue, false, false, false)
		return err
	})
}
