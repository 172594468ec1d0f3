package remoting_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/broker/rocketmq/remoting"
	"github.com/settlemq/settle/internal/services"
)

func TestARealServerAnswersWhatItIsAskedOfNodesTopicsGroupsAndPositions(t *testing.T) {
	names := strings.TrimPrefix(services.URL(t, "SETTLE_TEST_ROCKETMQ", "rocketmq"), "rocketmq://")
	c, ctx := newClient(t, remoting.Config{}), t.Context()
	nodes, err := c.Cluster(ctx, names)
	if err != nil || len(nodes) == 0 || !nodes[0].Master() || nodes[0].Name == "" || nodes[0].Addr == "" {
		t.Fatalf("the nodes are %+v, %v", nodes, err)
	}
	at := nodes[0].Addr
	topic := fmt.Sprintf("remoting_%x", rand.Uint64())
	if _, err := c.TopicAt(ctx, at, topic); !remoting.IsRefusal(err, remoting.TopicMissing) {
		t.Errorf("of a missing topic it says %v", err)
	}
	if _, err := c.Route(ctx, names, topic); !remoting.IsRefusal(err, remoting.TopicMissing) {
		t.Errorf("of the way to a missing topic it says %v", err)
	}
	made := remoting.Topic{Name: topic, Read: 3, Write: 2, Perm: remoting.PermRead | remoting.PermWrite, MessageType: "FIFO"}
	if err := c.SetTopic(ctx, at, made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.DeleteTopic(context.Background(), at, topic); err != nil {
			t.Error(err)
		}
		if err := c.ForgetTopic(context.Background(), names, topic); err != nil {
			t.Error(err)
		}
		if _, err := c.TopicAt(context.Background(), at, topic); !remoting.IsRefusal(err, remoting.TopicMissing) {
			t.Errorf("after it was deleted it says %v", err)
		}
	})
	if got, err := c.TopicAt(ctx, at, topic); err != nil || got != made {
		t.Errorf("the topic is %+v, %v; want %+v", got, err, made)
	}
	for { // a broker tells name servers in its own time
		route, err := c.Route(ctx, names, topic)
		if remoting.IsRefusal(err, remoting.TopicMissing) {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		want := []remoting.RouteQueues{{Broker: nodes[0].Name, Read: 3, Write: 2, Perm: 6}}
		if err != nil || !slices.Equal(route.Queues, want) || route.Master(nodes[0].Name) != at || route.Master("nobody") != "" {
			t.Errorf("the way there is %+v, %v", route, err)
		}
		break
	}
	if all, err := c.Topics(ctx, names); err != nil || !slices.Contains(all, topic) {
		t.Errorf("the topics are %v, %v", all, err)
	}
	positions(t, c, at, topic)
	group(t, c, at)
	settings(t, c, at)
}

func positions(t *testing.T, c *remoting.Client, at, topic string) {
	ctx, group := t.Context(), "of_"+topic
	for name, ask := range map[string]func() (int64, error){
		"min": func() (int64, error) { return c.MinOffset(ctx, at, topic, 1) },
		"max": func() (int64, error) { return c.MaxOffset(ctx, at, topic, 1) },
		"at":  func() (int64, error) { return c.OffsetAt(ctx, at, topic, 1, time.Now()) },
	} {
		if n, err := ask(); err != nil || n != 0 {
			t.Errorf("%s of an empty queue is %d, %v", name, n, err)
		}
	}
	if n, err := c.GroupOffset(ctx, at, group, topic, 1); !remoting.IsRefusal(err, remoting.NotFound) {
		t.Errorf("the position of a group that has none is %d, %v", n, err)
	}
	if err := c.SetGroupOffset(ctx, at, group, topic, 1, 0); !remoting.IsRefusal(err, remoting.GroupMissing) {
		t.Errorf("to keep the position of a group that is not there it says %v", err)
	}
	if err := c.SetGroup(ctx, at, remoting.Group{Name: group, Enabled: true, RetryQueues: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.DeleteGroup(context.Background(), at, group); err != nil {
			t.Error(err)
		}
	})
	if err := c.SetGroupOffset(ctx, at, group, topic, 1, 0); err != nil {
		t.Fatal(err)
	}
	if n, err := c.GroupOffset(ctx, at, group, topic, 1); err != nil || n != 0 {
		t.Errorf("the position that was kept is %d, %v", n, err)
	}
}

func group(t *testing.T, c *remoting.Client, at string) {
	ctx := t.Context()
	g := remoting.Group{Name: fmt.Sprintf("remoting_%x", rand.Uint64()), Enabled: true, Retries: 3, RetryQueues: 2}
	if err := c.SetGroup(ctx, at, g); err != nil {
		t.Fatal(err)
	}
	all, err := c.Groups(ctx, at)
	if err != nil || !slices.Contains(all, g) {
		t.Errorf("the groups are %+v, %v", all, err)
	}
	if members, err := c.Members(ctx, at, g.Name); err != nil || len(members) != 0 {
		t.Errorf("the members of an idle group are %v, %v", members, err)
	}
	if err := c.DeleteGroup(ctx, at, g.Name); err != nil {
		t.Fatal(err)
	}
	if all, err = c.Groups(ctx, at); err != nil || slices.Contains(all, g) {
		t.Errorf("the groups after it was deleted are %+v, %v", all, err)
	}
}

func settings(t *testing.T, c *remoting.Client, at string) {
	ctx := t.Context()
	before, err := c.Settings(ctx, at)
	if err != nil || before["flushDiskType"] != "SYNC_FLUSH" {
		t.Fatalf("the settings are %v, %v", before, err)
	}
	// To what it is: other tests use this server.
	if err := c.SetSettings(ctx, at, map[string]string{"brokerPermission": before["brokerPermission"]}); err != nil {
		t.Error(err)
	}
	state, err := c.State(ctx, at)
	if err != nil || state["brokerVersionDesc"] == "" || state["bootTimestamp"] == "" {
		t.Errorf("its state is %v, %v", state, err)
	}
}
