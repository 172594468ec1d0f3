package rabbitmq

import (
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
)

// parcel is an encoded message on its way.
type parcel struct {
	i       int
	key     string
	message amqp.Publishing
	confirm *amqp.DeferredConfirmation
}

// courier sends the messages of one topic of one call, on a line of its own.
// It outlives a call that has not waited for it, because a write can hang, and
// touches nothing of the caller's.
type courier struct {
	b     *Broker
	s     *session
	topic string
	// parcels holds a window, and is closed when no more come.
	parcels chan parcel
	answers chan<- answer
	line    *line
	// flying are the parcels that wait for their confirms, in order.
	flying []parcel
	// returned holds why the broker sent messages back, by their ids.
	returned map[string]amqp.Return
}

func (b *Broker) courier(s *session, topic string, answers chan<- answer) *courier {
	c := &courier{b: b, s: s, topic: topic, parcels: make(chan parcel, b.cfg.Window), answers: answers, returned: map[string]amqp.Return{}}
	b.owned.Go(c.run)
	return c
}

func (c *courier) run() {
	trouble := c.b.ready(c.s, c.topic)
	if trouble == nil {
		trouble = c.renew()
	}
	parcels := c.parcels
	for parcels != nil || len(c.flying) > 0 {
		select {
		case p, ok := <-parcels:
			switch {
			case !ok:
				parcels = nil
			case trouble != nil:
				c.answers <- answer{p.i, trouble}
			default:
				trouble = c.send(p)
			}
		case <-c.front():
			trouble = c.land()
		}
	}
	if c.line != nil {
		c.b.put(c.line)
	}
}

// front is closed when the oldest parcel in flight has its answer.
func (c *courier) front() <-chan struct{} {
	if len(c.flying) == 0 {
		return nil
	}
	return c.flying[0].confirm.Done()
}

// send hands a parcel to the broker. An error is the line's end.
func (c *courier) send(p parcel) error {
	var err error
	p.confirm, err = c.line.ch.PublishWithDeferredConfirm(c.topic, p.key, true, false, p.message)
	if err != nil {
		trouble := c.fallen(c.line.why())
		if trouble == nil {
			return c.send(p)
		}
		c.answers <- answer{p.i, trouble}
		return trouble
	}
	c.flying = append(c.flying, p)
	return nil
}

// land answers what has its confirm.
func (c *courier) land() error {
	for len(c.flying) > 0 {
		p := c.flying[0]
		select {
		case <-p.confirm.Done():
		default:
			return nil
		}
		if !p.confirm.Acked() && c.line.ch.IsClosed() {
			return c.fallen(c.line.why())
		}
		c.flying = c.flying[1:]
		c.answers <- answer{p.i, c.outcome(p)}
	}
	return nil
}

// outcome reads a confirm. A message that nobody gets is sent back ahead of its
// confirm.
func (c *courier) outcome(p parcel) error {
	if !p.confirm.Acked() {
		// A queue is full, or has failed: not this event's fault. Others may have it.
		return &settle.PublishError{Scope: settle.ScopeTopic, Err: errors.New("RabbitMQ has refused it (basic.nack): a queue that it goes to is full or does not work")}
	}
	for more := true; more; {
		select {
		case r, ok := <-c.line.returns:
			if more = ok; ok {
				c.returned[r.MessageId] = r
			}
		default:
			more = false
		}
	}
	r, is := c.returned[p.message.MessageId]
	if !is {
		return nil
	}
	delete(c.returned, p.message.MessageId)
	err := fmt.Errorf("RabbitMQ has sent it back (%d %s): no queue is bound to exchange %q for it, and nobody would get it; name the consumer groups ahead, or let one subscribe", r.ReplyCode, r.ReplyText, c.topic)
	if c.b.cfg.Kind == exchangeFanout {
		// It goes to every queue, whatever the event is: there is none, and the
		// next event will have none.
		return &settle.PublishError{Scope: settle.ScopeTopic, Err: err}
	}
	return &settle.PublishError{Scope: settle.ScopeRecord, Err: err}
}

// fallen answers all that was in flight on a line that has ended, and returns
// what is wrong with the next. Confirms that came before it ended count.
func (c *courier) fallen(why error) error {
	var left []parcel
	for _, p := range c.flying {
		if p.confirm.Acked() {
			c.answers <- answer{p.i, c.outcome(p)}
			continue
		}
		left = append(left, p)
	}
	c.flying = nil
	if isTooLarge(why) {
		return c.oneByOne(left, why)
	}
	trouble := error(classify(why))
	if code(why) == 0 {
		trouble = &settle.PublishError{Scope: settle.ScopeBroker, Err: fmt.Errorf("the outcome is unknown: %w", why)}
	}
	for _, p := range left {
		c.answers <- answer{p.i, trouble}
	}
	return trouble
}

// oneByOne sends again what was in flight when the broker found a message
// larger than it takes: it closes the channel, and does not say which it was.
func (c *courier) oneByOne(left []parcel, why error) error {
	if len(left) == 1 {
		c.answers <- answer{left[0].i, &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(why)}}
		left = nil
	}
	trouble := c.renew()
	for _, p := range left {
		if trouble == nil {
			trouble = c.send(p)
		} else {
			c.answers <- answer{p.i, trouble}
		}
		for trouble == nil && len(c.flying) > 0 {
			<-c.front()
			trouble = c.land()
		}
	}
	return trouble
}

// renew takes another line after one has ended.
func (c *courier) renew() (trouble error) {
	c.line, trouble = c.b.take(c.s)
	return trouble
}
