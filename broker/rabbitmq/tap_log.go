package rabbitmq

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
)

const (
	// streamOffset names the place of a message in a stream, and where reading
	// begins.
	streamOffset = "x-stream-offset"
	// readAhead is how many messages of the log are on their way at a time.
	readAhead = 500
)

// Places reports whether what a publisher is told is where the event stands in
// the log: RabbitMQ tells no place.
func (t *Tap) Places() bool { return false }

// ReadAll calls visit with every record that came to topic since Keep was
// called for it, in the order in which the log has them.
func (t *Tap) ReadAll(ctx context.Context, topic string, visit func(settle.Record) error) error {
	mark, err := t.mark(ctx, topic)
	if err != nil {
		return err
	}
	return t.read(ctx, topic, "first", func(d amqp.Delivery, at int64) (bool, error) {
		if d.MessageId == mark {
			return false, nil
		}
		return true, visitRecord(topic, d, at, visit)
	})
}

// ReadSome does the same with up to n records from one place in the log: 0 is
// its beginning, 1 its end.
func (t *Tap) ReadSome(ctx context.Context, topic string, place float64, n int, visit func(settle.Record) error) error {
	end, mark, err := t.end(ctx, topic)
	if err != nil {
		return err
	}
	t.mu.Lock()
	marks := t.marks // all of them may be at the end
	t.mu.Unlock()
	from, left := max(0, min(int64(place*float64(end)), end-int64(n)-marks)), n
	return t.read(ctx, topic, from, func(d amqp.Delivery, at int64) (bool, error) {
		if d.MessageId == mark {
			return false, nil
		}
		if d.Exchange == topic {
			left--
		}
		err := visitRecord(topic, d, at, visit)
		return left > 0, err
	})
}

// visitRecord passes marks over.
func visitRecord(topic string, d amqp.Delivery, at int64, visit func(settle.Record) error) error {
	if d.Exchange != topic {
		return nil
	}
	delete(d.Headers, streamOffset)
	rec := record(place{topic: topic}, at, d)
	rec.At.Offset = at
	return visit(rec)
}

// Plant stores value as it is and returns where, once the broker has confirmed
// it. It blocks until then or until ctx is done. RabbitMQ chooses the partition:
// that of the header settle-aggregate-id. Under one message id this tap stores
// once: where a confirm was lost the log is asked first.
func (t *Tap) Plant(ctx context.Context, topic string, _ int, messageID string, headers map[string]string, value []byte) (settle.Coordinates, error) {
	t.mu.Lock()
	at, is := t.planted[messageID]
	from, tried := t.sought[messageID]
	t.mu.Unlock()
	if is {
		return at, nil
	}
	end, mark, err := t.end(ctx, topic)
	if err == nil && tried {
		if at, err = t.find(ctx, topic, messageID, from, mark); err == nil && at.Topic != "" {
			return at, nil
		}
	}
	if err != nil {
		return settle.Coordinates{}, err
	}
	t.mu.Lock()
	t.sought[messageID] = end
	t.mu.Unlock()
	var pairs [][2]string
	for k, v := range headers {
		pairs = append(pairs, [2]string{k, v})
	}
	table, _ := encodePairs(pairs)
	if err := t.send(ctx, topic, "", amqp.Publishing{Headers: table, MessageId: messageID, DeliveryMode: amqp.Persistent, Body: value}); err != nil {
		return settle.Coordinates{}, fmt.Errorf("plant a record at %q: %w", topic, err)
	}
	return t.find(ctx, topic, messageID, end, "")
}

// find looks for a message from a place on, up to a mark if one is named, and
// remembers where it is. A message that is not there has no coordinates.
func (t *Tap) find(ctx context.Context, topic, messageID string, from int64, mark string) (found settle.Coordinates, err error) {
	err = t.read(ctx, topic, from, func(d amqp.Delivery, at int64) (bool, error) {
		switch {
		case d.Exchange == topic && d.MessageId == messageID:
			found = settle.Coordinates{Topic: topic, Offset: at}
			return false, nil
		case d.Exchange != topic && d.MessageId == mark:
			return false, nil
		}
		return true, nil
	})
	if err == nil && found.Topic != "" {
		t.mu.Lock()
		t.planted[messageID] = found
		t.mu.Unlock()
	}
	return found, err
}

// mark writes a message into the log alone, which tells who reads that this is
// the end: how much a stream holds is told late.
func (t *Tap) mark(ctx context.Context, topic string) (string, error) {
	id := settle.NewID()
	if err := t.send(ctx, "", logName(topic), amqp.Publishing{MessageId: id, DeliveryMode: amqp.Persistent}); err != nil {
		return "", fmt.Errorf("mark the end of the log of topic %q: %w", topic, err)
	}
	t.mu.Lock()
	t.marks++
	t.mu.Unlock()
	return id, nil
}

// end returns a place in the log behind all that was there, or near to it, and
// a mark that is not before it.
func (t *Tap) end(ctx context.Context, topic string) (end int64, mark string, err error) {
	if mark, err = t.mark(ctx, topic); err != nil {
		return 0, "", err
	}
	err = t.read(ctx, topic, "last", func(_ amqp.Delivery, at int64) (bool, error) {
		end = at
		return false, nil
	})
	return end, mark, err
}

// send waits until a message is confirmed. One that no queue takes has failed.
func (t *Tap) send(ctx context.Context, exchange, key string, m amqp.Publishing) error {
	return t.with(ctx, func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		returned := ch.NotifyReturn(make(chan amqp.Return, 1))
		confirm, err := ch.PublishWithDeferredConfirm(exchange, key, true, false, m)
		if err != nil {
			return err
		}
		acked, err := confirm.WaitContext(ctx)
		if err != nil {
			return err
		}
		select {
		case r, ok := <-returned:
			if ok {
				return fmt.Errorf("RabbitMQ has sent it back (%d %s)", r.ReplyCode, r.ReplyText)
			}
		default:
		}
		if !acked {
			return errors.New("RabbitMQ has not taken it")
		}
		return nil
	})
}

// read calls visit with the messages of the log from a place on, until it has
// had enough. It waits for messages that are not there yet.
func (t *Tap) read(ctx context.Context, topic string, from any, visit func(d amqp.Delivery, at int64) (more bool, err error)) error {
	s, err := t.session(ctx)
	if err != nil {
		return err
	}
	var found <-chan amqp.Delivery
	ch, err := s.channel(func(ch *amqp.Channel) (err error) {
		if err = ch.Qos(readAhead, 0, false); err == nil {
			found, err = ch.Consume(logName(topic), "", false, false, false, false, amqp.Table{streamOffset: from})
		}
		return err
	})
	if err == nil {
		err = follow(ctx, found, from, visit)
		_ = s.within(ch.Close)
	}
	if err != nil {
		return fmt.Errorf("read the log of topic %q: %w", topic, explain(err))
	}
	return nil
}

func follow(ctx context.Context, found <-chan amqp.Delivery, from any, visit func(d amqp.Delivery, at int64) (more bool, err error)) error {
	first, _ := from.(int64)
	for {
		select {
		case d, ok := <-found:
			if !ok {
				return errLost
			}
			// A stream gives more when it hears that this was taken, and keeps it.
			if err := d.Ack(false); err != nil {
				return err
			}
			at, is := d.Headers[streamOffset].(int64)
			if !is {
				return errors.New("the queue is no stream")
			}
			if at < first {
				continue
			}
			if more, err := visit(d, at); err != nil || !more {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
