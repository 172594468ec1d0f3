package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

// examination is what was seen of one cluster, at once. What could not be seen has
// an error in its place.
type examination struct {
	cfg  DoctorConfig
	at   address
	wire *remoting.Client

	servers []serverSeen
	// nodes are those that any name server knows, masters before their slaves.
	nodes  []nodeSeen
	topics []topicSeen
	// missing were named and are not there; impossible can't be names of topics.
	missing, impossible []string
}

// serverSeen is a name server.
type serverSeen struct {
	addr  string
	nodes []remoting.Node
	err   error
}

// nodeSeen is a broker's process.
type nodeSeen struct {
	remoting.Node
	settings    map[string]string
	settingsErr error
	state       map[string]string
	stateErr    error
	// skew is how far its clock is ahead of this machine's, to doubt.
	skew, doubt time.Duration
	copies      remoting.Replication
	copiesErr   error
	groups      []remoting.Group
	groupsErr   error
}

// topicSeen is a topic, by the masters that have it.
type topicSeen struct {
	name string
	at   map[string]remoting.Topic
	err  error
	// orders are the lists of its queues that name servers keep, each once, "" for
	// none.
	orders []string
}

// gather asks for nodes and their settings, and for all else when all is set. An
// error means that no name server tells of a broker.
func (x *examination) gather(ctx context.Context, all bool) error {
	if err := x.seeNodes(ctx); err != nil {
		return err
	}
	for i := range x.nodes {
		n := &x.nodes[i]
		n.settings, n.settingsErr = x.wire.Settings(ctx, n.Addr)
		if all {
			x.seeNode(ctx, n)
		}
	}
	if !all {
		return nil
	}
	return x.seeTopics(ctx)
}

func (x *examination) seeNodes(ctx context.Context) error {
	var errs []error
	for _, addr := range x.at.servers {
		nodes, err := x.wire.Cluster(ctx, addr)
		x.servers = append(x.servers, serverSeen{addr: addr, nodes: nodes, err: err})
		errs = append(errs, err)
		for _, n := range nodes {
			if !slices.ContainsFunc(x.nodes, func(s nodeSeen) bool { return s.Node == n }) {
				x.nodes = append(x.nodes, nodeSeen{Node: n})
			}
		}
	}
	slices.SortStableFunc(x.nodes, func(a, b nodeSeen) int { return strings.Compare(a.Name, b.Name) })
	if len(x.nodes) > 0 {
		return nil
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return errors.New("the name server knows no broker; start one with namesrvAddr set to it")
}

func (x *examination) seeNode(ctx context.Context, n *nodeSeen) {
	before := x.cfg.Clock()
	n.state, n.stateErr = x.wire.State(ctx, n.Addr)
	if n.stateErr == nil {
		after := x.cfg.Clock()
		n.doubt = after.Sub(before) + time.Second // it tells whole seconds
		if now, ok := nodeTime(n.state); ok {
			n.skew = now.Sub(after)
		} else {
			n.doubt = -1
		}
	}
	if n.Master() {
		n.copies, n.copiesErr = x.wire.Replication(ctx, n.Addr)
		n.groups, n.groupsErr = x.wire.Groups(ctx, n.Addr)
	}
}

// nodeTime is a node's clock: it tells when it has started, and for how long it
// runs, "[ 0 days, 0 hours, 30 minutes, 52 seconds ]".
func nodeTime(state map[string]string) (time.Time, bool) {
	started, err := strconv.ParseInt(state["bootTimestamp"], 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	var days, hours, minutes, seconds int64
	if _, err := fmt.Sscanf(state["runtime"], "[ %d days, %d hours, %d minutes, %d seconds ]", &days, &hours, &minutes, &seconds); err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(started).Add(time.Duration(((days*24+hours)*60+minutes)*60+seconds) * time.Second), true
}

// masters are the nodes that take messages.
func (x *examination) masters() []nodeSeen {
	return slices.DeleteFunc(slices.Clone(x.nodes), func(n nodeSeen) bool { return !n.Master() })
}

// slaves counts those of a master.
func (x *examination) slaves(name string) (n int) {
	for _, s := range x.nodes {
		if s.Name == name && !s.Master() {
			n++
		}
	}
	return n
}

// seeTopics finds the topics to look at, and looks at them.
func (x *examination) seeTopics(ctx context.Context) error {
	known := map[string]bool{}
	var err error
	for _, s := range x.servers {
		if s.err != nil {
			continue
		}
		var names []string
		if names, err = x.wire.Topics(ctx, s.addr); err != nil {
			continue
		}
		for _, name := range names {
			known[name] = true
		}
	}
	if len(known) == 0 && err != nil {
		return err
	}
	wanted := slices.Clone(x.cfg.Topics)
	if len(wanted) == 0 || x.cfg.Others {
		for name := range known {
			if !slices.Contains(wanted, name) && !x.own(name) {
				wanted = append(wanted, name)
			}
		}
	}
	slices.Sort(wanted)
	for _, name := range slices.Compact(wanted) {
		switch {
		case badTopic(name) != "":
			x.impossible = append(x.impossible, fmt.Sprintf("%q (%s)", name, badTopic(name)))
		case !known[name]:
			x.missing = append(x.missing, name)
		default:
			x.topics = append(x.topics, x.seeTopic(ctx, name))
		}
	}
	return nil
}

// own names topics that are the cluster's: clusters and brokers have one each, and
// one for replies.
func (x *examination) own(topic string) bool {
	return badTopic(topic) != "" || strings.HasSuffix(topic, "_REPLY_TOPIC") ||
		slices.ContainsFunc(x.nodes, func(n nodeSeen) bool { return n.Name == topic || n.Cluster == topic })
}

func (x *examination) seeTopic(ctx context.Context, name string) topicSeen {
	t := topicSeen{name: name, at: map[string]remoting.Topic{}}
	for _, n := range x.masters() {
		topic, err := x.wire.TopicAt(ctx, n.Addr, name)
		switch {
		case err == nil:
			t.at[n.Name] = topic
		case !remoting.IsRefusal(err, remoting.TopicMissing):
			t.err = err
		}
	}
	for _, s := range x.servers {
		if s.err != nil {
			continue
		}
		order, err := x.wire.Order(ctx, s.addr, name)
		if err != nil {
			t.err = err
		} else if !slices.Contains(t.orders, order) {
			t.orders = append(t.orders, order)
		}
	}
	return t
}
