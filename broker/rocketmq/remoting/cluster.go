package remoting

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
)

const requestCluster = 106

// Node is one broker's process. A master and its slaves have one name; the
// master's id is 0.
type Node struct {
	Cluster, Name string
	ID            int64
	// Addr is where clients reach it.
	Addr string
}

// Master reports whether the node takes messages.
func (n Node) Master() bool { return n.ID == 0 }

// brokerData is what name servers know of the processes of one name.
type brokerData struct {
	Addrs   map[string]string `json:"brokerAddrs"`
	Name    string            `json:"brokerName"`
	Cluster string            `json:"cluster"`
}

// nodes lists processes by name, masters first.
func nodes(of []brokerData) []Node {
	var all []Node
	for _, b := range of {
		for id, addr := range b.Addrs {
			if n, err := strconv.ParseInt(id, 10, 64); err == nil {
				all = append(all, Node{Cluster: b.Cluster, Name: b.Name, ID: n, Addr: addr})
			}
		}
	}
	slices.SortFunc(all, func(a, b Node) int { return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return all
}

// Cluster returns the nodes that a name server knows now. One that has ended
// without saying so is known for two minutes more.
func (c *Client) Cluster(ctx context.Context, nameServer string) ([]Node, error) {
	a, err := c.request(ctx, nameServer, Command{Code: requestCluster})
	if err != nil {
		return nil, err
	}
	var told struct {
		Brokers map[string]brokerData `json:"brokerAddrTable"`
	}
	if err := decodeLenient(a.Body, &told); err != nil {
		return nil, unreadable(nameServer, requestCluster, err)
	}
	var all []brokerData
	for _, b := range told.Brokers {
		all = append(all, b)
	}
	return nodes(all), nil
}
