package remoting

import (
	"context"
	"strconv"
)

const (
	requestSetTopic     = 17
	requestDeleteTopic  = 215
	requestForgetTopic  = 216
	requestTopicConfig  = 351
	attributeOfType     = "message.type"
	defaultTopicOfAsked = "TBW102"
)

// Topic is what one broker keeps of a topic.
type Topic struct {
	Name string
	// Read and Write are how many queues consumers and producers see.
	Read, Write int
	// Perm is PermRead, PermWrite, both or none.
	Perm int
	// Order is whether name servers keep its list of queues.
	Order bool
	// MessageType is what the topic was made for, such as NORMAL, FIFO, DELAY or
	// TRANSACTION; "" where nobody has said.
	MessageType string
}

// TopicAt returns what a broker keeps of a topic; one that is not there is a
// *Refusal of TopicMissing.
func (c *Client) TopicAt(ctx context.Context, broker, topic string) (Topic, error) {
	a, err := c.request(ctx, broker, Command{Code: requestTopicConfig, Fields: map[string]string{"topic": topic}})
	if err != nil {
		return Topic{}, err
	}
	var told struct {
		Name       string            `json:"topicName"`
		Read       int               `json:"readQueueNums"`
		Write      int               `json:"writeQueueNums"`
		Perm       int               `json:"perm"`
		Order      bool              `json:"order"`
		Attributes map[string]string `json:"attributes"`
	}
	if err := decodeLenient(a.Body, &told); err != nil {
		return Topic{}, unreadable(broker, requestTopicConfig, err)
	}
	return Topic{Name: told.Name, Read: told.Read, Write: told.Write, Perm: told.Perm, Order: told.Order, MessageType: told.Attributes[attributeOfType]}, nil
}

// SetTopic makes a topic at a broker, or changes one: a number of queues that is
// smaller than before hides those above it with what is in them. Type can be given
// once.
func (c *Client) SetTopic(ctx context.Context, broker string, t Topic) error {
	fields := map[string]string{
		"topic": t.Name, "defaultTopic": defaultTopicOfAsked, "readQueueNums": strconv.Itoa(t.Read), "writeQueueNums": strconv.Itoa(t.Write),
		"perm": strconv.Itoa(t.Perm), "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": strconv.FormatBool(t.Order),
	}
	if t.MessageType != "" {
		fields["attributes"] = "+" + attributeOfType + "=" + t.MessageType
	}
	_, err := c.request(ctx, broker, Command{Code: requestSetTopic, Fields: fields})
	return err
}

// DeleteTopic deletes a topic at a broker, with all that is in it there. One that
// is not there is left at that.
func (c *Client) DeleteTopic(ctx context.Context, broker, topic string) error {
	_, err := c.request(ctx, broker, Command{Code: requestDeleteTopic, Fields: map[string]string{"topic": topic}}, TopicMissing)
	return err
}

// ForgetTopic has a name server forget where a topic was.
func (c *Client) ForgetTopic(ctx context.Context, nameServer, topic string) error {
	_, err := c.request(ctx, nameServer, Command{Code: requestForgetTopic, Fields: map[string]string{"topic": topic}}, TopicMissing)
	return err
}
