package kafka_test

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/settlemq/settle/broker/kafka"
)

func TestATopicThatIsMadeHasThreeCopiesOfWhichTwoAreWaitedForWhereThereAreAsManyNodes(t *testing.T) {
	for nodes, want := range map[int]struct {
		copies int
		inSync string
	}{1: {1, ""}, 2: {2, ""}, 3: {3, "2"}, 5: {3, "2"}} {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(nodes))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cluster.Close)
		r := newRig(t, "kafka://"+cluster.ListenAddrs()[0])
		b, err := kafka.Open(t.Context(), r.at, kafka.Config{Topics: []string{r.topic}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		topics, err := r.admin.ListTopics(t.Context(), r.topic)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range topics[r.topic].Partitions {
			if len(p.Replicas) != want.copies {
				t.Errorf("%d nodes: a partition has %d copies, want %d", nodes, len(p.Replicas), want.copies)
			}
		}
		if got := topicSetting(t, r.admin, r.topic, "min.insync.replicas"); got != want.inSync {
			t.Errorf("%d nodes: min.insync.replicas is %q, want %q", nodes, got, want.inSync)
		}
	}
}

// topicSetting returns what a topic itself says, or "" where it has the cluster's.
func topicSetting(t *testing.T, admin *kadm.Client, topic, name string) string {
	t.Helper()
	all, err := admin.DescribeTopicConfigs(context.Background(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all[0].Configs {
		if c.Key == name && c.Value != nil && c.Source.String() == "DYNAMIC_TOPIC_CONFIG" {
			return *c.Value
		}
	}
	return ""
}
