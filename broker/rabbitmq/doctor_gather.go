package rabbitmq

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// examination is what was seen of one cluster, at once. What could not be seen
// has an error in its place.
type examination struct {
	cfg DoctorConfig
	b   *Broker
	s   *session
	at  address
	api *management

	overview    overview
	overviewErr error
	// skew is how far the server's clock is ahead, known to a second.
	skew time.Duration

	nodes       []nodeSeen
	nodesErr    error
	flags       []flag
	flagsErr    error
	exchanges   []exchangeSeen
	queues      []queueSeen
	bindings    []bindingSeen
	topologyErr error
	policies    []policy
	policiesErr error

	// topics are what is looked at; missing were named, and are not there.
	topics, missing []string
	// groups are those of each topic, by name.
	groups map[string][]string
	// dead counts what the groups' queues of dead ones hold, of those that are
	// there.
	dead map[string]int
	// plugin says whether the consistent hash is there.
	plugin    bool
	pluginErr error
	// rights are what the account lacks, by topic.
	rights    map[string][]string
	rightsErr error
}

type overview struct {
	Version string `json:"rabbitmq_version"`
}

// nodeSeen is a node. Of one that is not running little else is known.
type nodeSeen struct {
	Name       string   `json:"name"`
	Running    bool     `json:"running"`
	Partitions []string `json:"partitions"`
	MemAlarm   bool     `json:"mem_alarm"`
	DiskAlarm  bool     `json:"disk_free_alarm"`
	DiskLimit  *int64   `json:"disk_free_limit"`
	DiskFree   *int64   `json:"disk_free"`
	MemLimit   *int64   `json:"mem_limit"`
	MemUsed    *int64   `json:"mem_used"`
}

type flag struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Stability string `json:"stability"`
}

type exchangeSeen struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete"`
	Arguments  map[string]any `json:"arguments"`
}

type queueSeen struct {
	Name      string         `json:"name"`
	Type      string         `json:"type"`
	Durable   bool           `json:"durable"`
	Exclusive bool           `json:"exclusive"`
	Arguments map[string]any `json:"arguments"`
	Members   []string       `json:"members"`
	Online    []string       `json:"online"`
}

type bindingSeen struct {
	Source string `json:"source"`
	To     string `json:"destination"`
	Kind   string `json:"destination_type"`
	Key    string `json:"routing_key"`
}

// gather asks. all is false where only what durability rests on is asked for.
func (x *examination) gather(ctx context.Context, all bool) {
	bounded := func(ask func(context.Context)) {
		ctx, cancel := context.WithTimeout(ctx, x.cfg.Timeout)
		defer cancel()
		ask(ctx)
	}
	bounded(func(ctx context.Context) { _, x.nodesErr = x.api.get(ctx, "nodes", &x.nodes) })
	bounded(func(ctx context.Context) { x.topologyErr = x.seeTopology(ctx) })
	bounded(func(ctx context.Context) { x.policiesErr = x.seePolicies(ctx) })
	x.seeTopics()
	if !all {
		return
	}
	bounded(func(ctx context.Context) {
		before := x.cfg.Clock()
		var now time.Time
		if now, x.overviewErr = x.api.get(ctx, "overview?disable_stats=true", &x.overview); x.overviewErr == nil && now.IsZero() {
			x.overviewErr = errors.New("the management API does not tell the time")
		}
		x.skew = now.Sub(before)
	})
	bounded(func(ctx context.Context) { _, x.flagsErr = x.api.get(ctx, "feature-flags", &x.flags) })
	x.seeDead()
	x.rights, x.rightsErr = x.seeRights()
	x.plugin, x.pluginErr = x.seePlugin()
}

// inVhost is a list of the API in the account's virtual host.
func (x *examination) inVhost(what string) string {
	return what + "/" + url.PathEscape(x.at.vhost)
}

func (x *examination) seeTopology(ctx context.Context) (err error) {
	if x.exchanges, err = list[exchangeSeen](ctx, x.api, x.inVhost("exchanges")+"?disable_stats=true"); err != nil {
		return err
	}
	if x.queues, err = list[queueSeen](ctx, x.api, x.inVhost("queues")+"?columns=name,type,durable,exclusive,arguments,members,online"); err != nil {
		return err
	}
	_, err = x.api.get(ctx, x.inVhost("bindings"), &x.bindings)
	return err
}

// seeTopics finds which topics there are, and their groups. A topic without a
// group is one only where it was named.
func (x *examination) seeTopics() {
	x.groups = map[string][]string{}
	for _, e := range x.exchanges {
		if e.Type != kindHash {
			continue
		}
		for _, b := range x.bindings {
			if b.To != e.Name || b.Kind != "exchange" {
				continue
			}
			if group, is := strings.CutPrefix(e.Name, b.Source+"."); is {
				x.groups[b.Source] = append(x.groups[b.Source], group)
			}
		}
	}
	for _, name := range x.cfg.Topics {
		there, err := x.exchangeIsThere(name)
		if err == nil && !there {
			x.missing = append(x.missing, name)
			continue
		}
		x.topics = append(x.topics, name)
		for _, g := range x.cfg.Groups {
			if !slices.Contains(x.groups[name], g) {
				x.groups[name] = append(x.groups[name], g)
			}
		}
	}
	if len(x.cfg.Topics) == 0 || x.cfg.Others {
		for name := range x.groups {
			if !slices.Contains(x.topics, name) {
				x.topics = append(x.topics, name)
			}
		}
	}
	slices.Sort(x.topics)
}

func (x *examination) exchangeIsThere(name string) (bool, error) {
	if badName("topic", name) != "" {
		return false, nil
	}
	err := x.b.alone(x.s, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(name, exchangeFanout, true, false, false, false, nil)
	})
	if code(err) == amqp.NotFound {
		return false, nil
	}
	return true, err
}

// probedAtMost bounds the topics that are asked one by one.
const probedAtMost = 100

func probed(topics []string) []string { return topics[:min(len(topics), probedAtMost)] }

// seeDead asks the queues themselves: the API's counts are some seconds old.
func (x *examination) seeDead() {
	x.dead = map[string]int{}
	for _, topic := range probed(x.topics) {
		for _, group := range x.groups[topic] {
			name := deadName(topic, group)
			var q amqp.Queue
			err := x.b.alone(x.s, func(ch *amqp.Channel) (err error) {
				q, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
				return err
			})
			if err == nil { // one that is missing groups tells
				x.dead[name] = q.Messages
			}
		}
	}
}

func (x *examination) exchange(name string) (exchangeSeen, bool) {
	i := slices.IndexFunc(x.exchanges, func(e exchangeSeen) bool { return e.Name == name })
	if i < 0 {
		return exchangeSeen{}, false
	}
	return x.exchanges[i], true
}

func (x *examination) queue(name string) (queueSeen, bool) {
	i := slices.IndexFunc(x.queues, func(q queueSeen) bool { return q.Name == name })
	if i < 0 {
		return queueSeen{}, false
	}
	return x.queues[i], true
}

// partitions are the queues of a group that are there, in order.
func (x *examination) partitionsOf(topic, group string) (all []queueSeen) {
	for n := 0; ; n++ {
		q, is := x.queue(queueName(topic, group, n))
		if !is {
			return all
		}
		all = append(all, q)
	}
}

// own are all queues of Settle's for the topics that are looked at.
func (x *examination) own() (all []queueSeen) {
	for _, topic := range x.topics {
		for _, group := range x.groups[topic] {
			all = append(all, x.partitionsOf(topic, group)...)
			if q, is := x.queue(deadName(topic, group)); is {
				all = append(all, q)
			}
		}
	}
	return all
}
