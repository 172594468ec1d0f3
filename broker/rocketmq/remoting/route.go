package remoting

import "context"

const (
	requestRoute  = 105
	requestTopics = 206
)

// What a topic's queues are for.
const (
	PermWrite = 2
	PermRead  = 4
)

// Route says where a topic is.
type Route struct {
	// Queues are those that each broker has, by its name.
	Queues []RouteQueues
	// Nodes are the processes of these brokers.
	Nodes []Node
}

// RouteQueues are the queues of one broker, which count from 0.
type RouteQueues struct {
	Broker string `json:"brokerName"`
	Read   int    `json:"readQueueNums"`
	Write  int    `json:"writeQueueNums"`
	// Perm is PermRead, PermWrite, both or none.
	Perm int `json:"perm"`
}

// Master returns the address of the process that takes messages for a broker's
// queues, "" while there is none.
func (r Route) Master(broker string) string {
	for _, n := range r.Nodes {
		if n.Name == broker && n.Master() {
			return n.Addr
		}
	}
	return ""
}

// Route returns where a topic is, as a name server knows it now. A topic that it
// does not know is a *Refusal of TopicMissing, also while its only broker is away.
func (c *Client) Route(ctx context.Context, nameServer, topic string) (Route, error) {
	a, err := c.request(ctx, nameServer, Command{Code: requestRoute, Fields: map[string]string{"topic": topic}})
	if err != nil {
		return Route{}, err
	}
	var told struct {
		Brokers []brokerData  `json:"brokerDatas"`
		Queues  []RouteQueues `json:"queueDatas"`
	}
	if err := decodeLenient(a.Body, &told); err != nil {
		return Route{}, unreadable(nameServer, requestRoute, err)
	}
	return Route{Queues: told.Queues, Nodes: nodes(told.Brokers)}, nil
}

// Topics lists all topics that a name server knows, the brokers' own too.
func (c *Client) Topics(ctx context.Context, nameServer string) ([]string, error) {
	a, err := c.request(ctx, nameServer, Command{Code: requestTopics})
	if err != nil {
		return nil, err
	}
	var told struct {
		Topics []string `json:"topicList"`
	}
	if err := decodeLenient(a.Body, &told); err != nil {
		return nil, unreadable(nameServer, requestTopics, err)
	}
	return told.Topics, nil
}
