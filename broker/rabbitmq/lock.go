package rabbitmq

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// lock makes sure that of members who find a queue free at once one takes it.
// The others would be standbys there, and believe that they work.
func (b *Broker) lock(s *session, queue string) (bool, error) {
	b.mu.Lock()
	taken := b.owners[queue]
	b.owners[queue] = true
	b.mu.Unlock()
	if taken {
		return false, nil
	}
	err := b.alone(s, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(ownerName(queue), false, false, true, false, amqp.Table{"x-queue-type": "classic"})
		return err
	})
	if err == nil {
		return true, nil
	}
	b.mu.Lock()
	delete(b.owners, queue)
	b.mu.Unlock()
	if code(err) == amqp.ResourceLocked {
		return false, nil
	}
	return false, fmt.Errorf("lock queue %q: %w", queue, explain(err))
}

func (b *Broker) unlock(s *session, queue string) {
	// An error is the connection's end, and with it the lock's.
	_ = b.alone(s, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(ownerName(queue), false, false, false)
		return err
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.owners, queue)
}
