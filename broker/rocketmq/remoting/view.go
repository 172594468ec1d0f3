package remoting

import (
	"context"
	"fmt"
	"strconv"
)

const requestView = 33

// MessageAt returns the message that stands at a place of a broker's log. Where none
// begins the broker refuses, or gives what can't be read.
func (c *Client) MessageAt(ctx context.Context, broker, topic string, log int64) (Message, error) {
	answer, err := c.request(ctx, broker, Command{Code: requestView, Fields: map[string]string{"topic": topic, "offset": strconv.FormatInt(log, 10)}})
	if err != nil {
		return Message{}, err
	}
	all, err := decodeMessages(answer.Body)
	if err != nil {
		return Message{}, fmt.Errorf("read the message at %d of %s: %w", log, broker, err)
	}
	if len(all) != 1 {
		return Message{}, fmt.Errorf("read the message at %d of %s: there are %d", log, broker, len(all))
	}
	return all[0], nil
}
