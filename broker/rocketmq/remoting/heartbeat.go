package remoting

import (
	"context"
	"strconv"
)

const requestHeartbeat = 34

// Heartbeat asks a broker whether it answers. It is told of no group.
func (c *Client) Heartbeat(ctx context.Context, broker, clientID string) error {
	body := `{"clientID":` + strconv.Quote(clientID) + `,"producerDataSet":[],"consumerDataSet":[]}`
	_, err := c.request(ctx, broker, Command{Code: requestHeartbeat, Body: []byte(body)})
	return err
}
