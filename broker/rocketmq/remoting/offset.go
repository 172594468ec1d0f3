package remoting

import (
	"context"
	"strconv"
	"time"
)

const (
	requestGroupOffset    = 14
	requestSetGroupOffset = 15
	requestOffsetAt       = 29
	requestMaxOffset      = 30
	requestMinOffset      = 31
)

// MinOffset returns the oldest position of a queue that is still there. A queue
// that is not there begins at 0.
func (c *Client) MinOffset(ctx context.Context, broker, topic string, queue int) (int64, error) {
	return c.offset(ctx, broker, Command{Code: requestMinOffset, Fields: queueFields(topic, queue)})
}

// MaxOffset returns the position behind the newest message of a queue that is
// stored, also while it can't be read yet.
func (c *Client) MaxOffset(ctx context.Context, broker, topic string, queue int) (int64, error) {
	fields := queueFields(topic, queue)
	fields["committed"] = "false"
	return c.offset(ctx, broker, Command{Code: requestMaxOffset, Fields: fields})
}

// OffsetAt returns the position of the first message of a queue that was stored at
// a time or later.
func (c *Client) OffsetAt(ctx context.Context, broker, topic string, queue int, at time.Time) (int64, error) {
	fields := queueFields(topic, queue)
	fields["timestamp"] = strconv.FormatInt(at.UnixMilli(), 10)
	return c.offset(ctx, broker, Command{Code: requestOffsetAt, Fields: fields})
}

// GroupOffset returns the position from which a consumer group goes on; one that
// has none is a *Refusal of NotFound.
func (c *Client) GroupOffset(ctx context.Context, broker, group, topic string, queue int) (int64, error) {
	fields := queueFields(topic, queue)
	fields["consumerGroup"] = group
	// A broker would answer 0 for a group that it does not know, of a queue whose
	// first message is in memory still.
	fields["setZeroIfNotFound"] = "false"
	return c.offset(ctx, broker, Command{Code: requestGroupOffset, Fields: fields})
}

// SetGroupOffset keeps the position from which a consumer group goes on. The broker
// has it in memory when this returns, and on its disk within some seconds.
func (c *Client) SetGroupOffset(ctx context.Context, broker, group, topic string, queue int, offset int64) error {
	fields := queueFields(topic, queue)
	fields["consumerGroup"], fields["commitOffset"] = group, strconv.FormatInt(offset, 10)
	_, err := c.request(ctx, broker, Command{Code: requestSetGroupOffset, Fields: fields})
	return err
}

func queueFields(topic string, queue int) map[string]string {
	return map[string]string{"topic": topic, "queueId": strconv.Itoa(queue)}
}

func (c *Client) offset(ctx context.Context, addr string, cmd Command) (int64, error) {
	a, err := c.request(ctx, addr, cmd)
	if err != nil {
		return 0, err
	}
	return a.number(addr, cmd.Code, "offset")
}
