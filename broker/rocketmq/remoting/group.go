package remoting

import (
	"context"
	"encoding/json"
)

const (
	requestMembers     = 38
	requestSetGroup    = 200
	requestGroups      = 201
	requestDeleteGroup = 207
)

// Group is what a broker keeps of a consumer group.
type Group struct {
	Name string `json:"groupName"`
	// Enabled is whether it may read.
	Enabled bool `json:"consumeEnable"`
	// Retries is how often the broker brings a message again that was sent back,
	// RetryQueues in how many queues of %RETRY%group.
	Retries     int `json:"retryMaxTimes"`
	RetryQueues int `json:"retryQueueNums"`
}

// Groups returns the consumer groups that a broker knows, its own too.
func (c *Client) Groups(ctx context.Context, broker string) ([]Group, error) {
	a, err := c.request(ctx, broker, Command{Code: requestGroups})
	if err != nil {
		return nil, err
	}
	var told struct {
		Table map[string]Group `json:"subscriptionGroupTable"`
	}
	if err := decodeLenient(a.Body, &told); err != nil {
		return nil, unreadable(broker, requestGroups, err)
	}
	var all []Group
	for _, g := range told.Table {
		all = append(all, g)
	}
	return all, nil
}

// SetGroup makes a consumer group at a broker, or changes it.
func (c *Client) SetGroup(ctx context.Context, broker string, g Group) error {
	body, err := json.Marshal(struct {
		Group
		FromMin   bool  `json:"consumeFromMinEnable"`
		Broadcast bool  `json:"consumeBroadcastEnable"`
		Broker    int64 `json:"brokerId"`
		Slow      int64 `json:"whichBrokerWhenConsumeSlowly"`
		Tell      bool  `json:"notifyConsumerIdsChangedEnable"`
	}{Group: g, FromMin: true, Slow: 1, Tell: true})
	if err == nil {
		_, err = c.request(ctx, broker, Command{Code: requestSetGroup, Body: body})
	}
	return err
}

// DeleteGroup deletes a consumer group at a broker, with its positions.
func (c *Client) DeleteGroup(ctx context.Context, broker, group string) error {
	_, err := c.request(ctx, broker, Command{Code: requestDeleteGroup, Fields: map[string]string{"groupName": group, "cleanOffset": "true"}})
	return err
}

// Members lists the client ids of those who are at work for a group at a broker.
// Brokers refuse to list those of a group that nobody is at work for, which is an
// empty list here.
func (c *Client) Members(ctx context.Context, broker, group string) ([]string, error) {
	const nobody = 1
	a, err := c.request(ctx, broker, Command{Code: requestMembers, Fields: map[string]string{"consumerGroup": group}}, nobody)
	if err != nil || a.Code == nobody {
		return nil, err
	}
	var told struct {
		IDs []string `json:"consumerIdList"`
	}
	if err := json.Unmarshal(a.Body, &told); err != nil {
		return nil, unreadable(broker, requestMembers, err)
	}
	return told.IDs, nil
}
