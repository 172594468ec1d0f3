package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	offsetsTopic      = "__consumer_offsets"
	transactionsTopic = "__transaction_state"
	// groupsAtMost bounds the groups whose rights are asked for.
	groupsAtMost = 100
)

// examination is what was seen of one cluster, at once. What could not be seen
// has an error in its place.
type examination struct {
	cfg   DoctorConfig
	tools tools

	nodes    []int32
	versions map[int32]string
	// settings are those of each node; of one that is absent they are unknown.
	settings    map[string]map[int32]string
	settingsErr error

	topics []topicSeen
	// missing and hidden were named, and are not there or not to be seen;
	// impossible can't be names of topics, and why.
	missing, hidden []string
	impossible      []string
	// internal are the partitions of the cluster's own topics that are there.
	internal map[string][]kadm.PartitionDetail

	quorum    quorum
	quorumErr error

	disks    []disk
	disksErr error

	groups    map[string][]kadm.ACLOperation
	groupsErr error
}

// topicSeen is a topic, with its settings or why they are not known.
type topicSeen struct {
	name        string
	partitions  []kadm.PartitionDetail
	may         []kadm.ACLOperation
	settings    map[string]string
	settingsErr error
}

// quorum is what the controllers say of themselves.
type quorum struct {
	leader int32
	// silent is for how long each voter has not kept up, by the leader's clock.
	silent map[int32]time.Duration
	// skew is how far the leader's clock is ahead of this machine's, doubt how
	// much of that may be the network's.
	skew, doubt time.Duration
}

// bounded gives one question its time.
func (x *examination) bounded(ctx context.Context, ask func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, x.cfg.Timeout)
	defer cancel()
	ask(ctx)
}

// gather asks for topics and settings. An error means that there is no cluster.
func (x *examination) gather(ctx context.Context, cl *kgo.Client) (err error) {
	x.bounded(ctx, func(ctx context.Context) { err = cl.Ping(ctx) })
	if err != nil {
		return err
	}
	x.bounded(ctx, func(ctx context.Context) { err = x.seeTopics(ctx, cl) })
	if err != nil {
		return err
	}
	x.bounded(ctx, func(ctx context.Context) { x.seeNodeSettings(ctx, cl) })
	x.bounded(ctx, func(ctx context.Context) { x.seeTopicSettings(ctx, cl) })
	return nil
}

// gatherRest asks for what has to do with nodes and rights.
func (x *examination) gatherRest(ctx context.Context, cl *kgo.Client) {
	admin := kadm.NewClient(cl)
	x.bounded(ctx, func(ctx context.Context) { x.seeVersions(ctx, admin) })
	x.bounded(ctx, func(ctx context.Context) { x.quorumErr = x.seeQuorum(ctx, cl) })
	x.bounded(ctx, func(ctx context.Context) { x.disksErr = x.seeDisks(ctx, cl) })
	x.bounded(ctx, func(ctx context.Context) { x.groupsErr = x.seeGroups(ctx, admin) })
}

func (x *examination) all() bool { return len(x.cfg.Topics) == 0 || x.cfg.Others }

// named are the topics that were named and can be.
func (x *examination) named() []string {
	return slices.DeleteFunc(slices.Clone(x.cfg.Topics), func(name string) bool { return badTopic(name) != "" })
}

// seeTopics asks for topics, and makes none by asking.
func (x *examination) seeTopics(ctx context.Context, cl *kgo.Client) error {
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations, req.AllowAutoTopicCreation = true, false
	if !x.all() {
		for _, name := range slices.Concat(x.named(), []string{offsetsTopic, transactionsTopic}) {
			topic := kmsg.NewMetadataRequestTopic()
			topic.Topic = &name
			req.Topics = append(req.Topics, topic)
		}
	}
	answer, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, name := range x.cfg.Topics {
		if why := badTopic(name); why != "" {
			x.impossible = append(x.impossible, fmt.Sprintf("%q (%s)", name, why))
		}
	}
	for _, n := range answer.Brokers {
		x.nodes = append(x.nodes, n.NodeID)
	}
	slices.Sort(x.nodes)
	x.internal = map[string][]kadm.PartitionDetail{}
	for _, t := range answer.Topics {
		x.sort(t)
	}
	slices.SortFunc(x.topics, func(a, b topicSeen) int { return strings.Compare(a.name, b.name) })
	for _, name := range x.named() {
		if !slices.Contains(x.hidden, name) && !slices.ContainsFunc(x.topics, func(t topicSeen) bool { return t.name == name }) {
			x.missing = append(x.missing, name)
		}
	}
	return nil
}

// sort puts a topic where it belongs.
func (x *examination) sort(t kmsg.MetadataResponseTopic) {
	if t.Topic == nil {
		return
	}
	name, named, err := *t.Topic, slices.Contains(x.cfg.Topics, *t.Topic), kerr.ErrorForCode(t.ErrorCode)
	switch {
	case !named && (name == offsetsTopic || name == transactionsTopic):
		if err == nil {
			x.internal[name] = partitionsOf(t)
		}
	case !named && (t.IsInternal || strings.HasPrefix(name, "_")):
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		x.hidden = append(x.hidden, name)
	case isAny(err, kerr.UnknownTopicOrPartition, kerr.InvalidTopicException):
	default:
		x.topics = append(x.topics, topicSeen{name: name, partitions: partitionsOf(t), may: kadm.DecodeACLOperations(t.AuthorizedOperations)})
	}
}

func partitionsOf(t kmsg.MetadataResponseTopic) (all []kadm.PartitionDetail) {
	for _, p := range t.Partitions {
		all = append(all, kadm.PartitionDetail{Topic: *t.Topic, Partition: p.Partition, Leader: p.Leader, Replicas: p.Replicas, ISR: p.ISR})
	}
	slices.SortFunc(all, func(a, b kadm.PartitionDetail) int { return int(a.Partition - b.Partition) })
	return all
}

func (x *examination) seeVersions(ctx context.Context, admin *kadm.Client) {
	x.versions = map[int32]string{}
	// One that does not answer has no version.
	all, err := admin.ApiVersions(ctx)
	if err != nil {
		return
	}
	for node, v := range all {
		if v.Err == nil {
			x.versions[node] = v.VersionGuess()
		}
	}
}

func (x *examination) seeNodeSettings(ctx context.Context, cl *kgo.Client) {
	x.settings = map[string]map[int32]string{}
	var names []string
	for _, node := range x.nodes {
		names = append(names, strconv.Itoa(int(node)))
	}
	for name, of := range settingsOf(ctx, cl, kmsg.ConfigResourceTypeBroker, names, nodeSettings()) {
		node, err := strconv.Atoi(name)
		if err = errors.Join(err, of.err); err != nil {
			x.settingsErr = err
			continue
		}
		for setting, value := range of.values {
			if x.settings[setting] == nil {
				x.settings[setting] = map[int32]string{}
			}
			x.settings[setting][int32(node)] = value
		}
	}
}

func (x *examination) seeTopicSettings(ctx context.Context, cl *kgo.Client) {
	var names []string
	for _, t := range x.topics {
		names = append(names, t.name)
	}
	all := settingsOf(ctx, cl, kmsg.ConfigResourceTypeTopic, names, topicSettings())
	for i := range x.topics {
		of := all[x.topics[i].name]
		x.topics[i].settings, x.topics[i].settingsErr = of.values, of.err
	}
}

type settings struct {
	values map[string]string
	err    error
}

// settingsOf asks for the settings of topics or of nodes. One that is refused
// hides no other.
func settingsOf(ctx context.Context, cl *kgo.Client, kind kmsg.ConfigResourceType, of, names []string) map[string]settings {
	all := map[string]settings{}
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, name := range of {
		all[name] = settings{err: errors.New("there was no answer")}
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, names
		req.Resources = append(req.Resources, r)
	}
	if len(of) == 0 {
		return all
	}
	for _, shard := range cl.RequestSharded(ctx, req) {
		if asked, ok := shard.Req.(*kmsg.DescribeConfigsRequest); ok && shard.Err != nil {
			for _, r := range asked.Resources {
				all[r.ResourceName] = settings{err: shard.Err}
			}
		}
		answer, ok := shard.Resp.(*kmsg.DescribeConfigsResponse)
		if !ok {
			continue
		}
		for _, r := range answer.Resources {
			got := settings{values: map[string]string{}, err: kerr.ErrorForCode(r.ErrorCode)}
			for _, c := range r.Configs {
				if c.Value != nil {
					got.values[c.Name] = *c.Value
				}
			}
			all[r.ResourceName] = got
		}
	}
	return all
}

// seeQuorum asks the controllers. Their leader's entry holds the moment at
// which it answered, which is the only clock that Kafka shows.
func (x *examination) seeQuorum(ctx context.Context, cl *kgo.Client) error {
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic, partition := kmsg.NewDescribeQuorumRequestTopic(), kmsg.NewDescribeQuorumRequestTopicPartition()
	topic.Topic, topic.Partitions = "__cluster_metadata", append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	before := x.cfg.Clock()
	answer, err := req.RequestWith(ctx, cl)
	after := x.cfg.Clock()
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	if err != nil {
		return err
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return errors.New("the controllers answer with nothing")
	}
	p := answer.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return err
	}
	x.quorum = quorum{leader: p.LeaderID, silent: map[int32]time.Duration{}, doubt: -1}
	now := int64(-1)
	for _, v := range p.CurrentVoters {
		if v.ReplicaID == p.LeaderID {
			now = v.LastCaughtUpTimestamp
		}
	}
	for _, v := range p.CurrentVoters {
		x.quorum.silent[v.ReplicaID] = 0
		if v.ReplicaID != p.LeaderID && now > 0 {
			x.quorum.silent[v.ReplicaID] = time.Duration(now-max(v.LastCaughtUpTimestamp, 0)) * time.Millisecond
		}
	}
	if now > 0 {
		x.quorum.doubt = after.Sub(before) / 2
		x.quorum.skew = time.UnixMilli(now).Sub(before.Add(x.quorum.doubt))
	}
	return nil
}

func (x *examination) seeGroups(ctx context.Context, admin *kadm.Client) error {
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return err
	}
	names := listed.Groups()
	if len(names) == 0 {
		return nil
	}
	described, err := admin.DescribeGroups(ctx, names[:min(len(names), groupsAtMost)]...)
	if err != nil {
		return err
	}
	x.groups = map[string][]kadm.ACLOperation{}
	for name, g := range described {
		if g.Err == nil {
			x.groups[name] = g.AuthorizedOperations
		}
	}
	return nil
}
