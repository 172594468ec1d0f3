package remoting

import "context"

const (
	requestPutKV = 100
	requestGetKV = 101
	requestCutKV = 102
	// namespaceOrder is where Java's clients look for it, too.
	namespaceOrder = "ORDER_TOPIC_CONFIG"
)

// Order returns the fixed list of a topic's queues that a name server keeps,
// broker-a:8;broker-b:8; one that it does not keep is empty.
func (c *Client) Order(ctx context.Context, nameServer, topic string) (string, error) {
	a, err := c.request(ctx, nameServer, Command{Code: requestGetKV, Fields: map[string]string{"namespace": namespaceOrder, "key": topic}}, NotFound)
	return a.Fields["value"], err
}

// SetOrder has a name server keep a topic's fixed list of queues.
func (c *Client) SetOrder(ctx context.Context, nameServer, topic, order string) error {
	_, err := c.request(ctx, nameServer, Command{Code: requestPutKV, Fields: map[string]string{"namespace": namespaceOrder, "key": topic, "value": order}})
	return err
}

// DeleteOrder has a name server forget that list.
func (c *Client) DeleteOrder(ctx context.Context, nameServer, topic string) error {
	_, err := c.request(ctx, nameServer, Command{Code: requestCutKV, Fields: map[string]string{"namespace": namespaceOrder, "key": topic}}, NotFound)
	return err
}
