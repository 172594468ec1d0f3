package kafka

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
)

// positionsTopic is where Kafka keeps the positions of consumer groups.
const positionsTopic = "__consumer_offsets"

// Leads returns how many of a topic's partitions each node leads that is there,
// by its host and port, and whether every partition has all its copies, those of
// the groups' positions, too. The map of management APIs is RabbitMQ's alone.
func (t *Tap) Leads(ctx context.Context, topic string, _ map[string]string) (leads map[string]int, whole bool, err error) {
	m, err := t.admin.Metadata(ctx, topic)
	if err != nil {
		return nil, false, fmt.Errorf("look at the leaders of topic %q: %w", topic, err)
	}
	if err := m.Topics[topic].Err; err != nil {
		return nil, false, fmt.Errorf("look at the leaders of topic %q: %w", topic, err)
	}
	names := map[int32]string{}
	leads = map[string]int{}
	for _, b := range m.Brokers {
		names[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		leads[names[b.NodeID]] = 0
	}
	for _, p := range m.Topics[topic].Partitions {
		if name, is := names[p.Leader]; is {
			leads[name]++
		}
	}
	positions, err := t.admin.Metadata(ctx, positionsTopic)
	if err != nil {
		return nil, false, fmt.Errorf("look at the copies of %s: %w", positionsTopic, err)
	}
	return leads, inPlace(m.Topics[topic]) && inPlace(positions.Topics[positionsTopic]), nil
}

// inPlace reports whether every partition has a leader and all its copies.
func inPlace(topic kadm.TopicDetail) bool {
	for _, p := range topic.Partitions {
		if p.Err != nil || p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
			return false
		}
	}
	return true
}
