package rabbitmq

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/settlemq/settle/doctor"
)

func (x *examination) topicChecks() []check {
	return []check{
		{"topics", "what is looked at below; an event to a topic that is not there waits until it is", x.seen},
		{"exchanges", "an exchange that is not durable is gone with its server; one that passes on what nobody takes acknowledges what nobody has", x.exchangeKinds},
		{"groups", "a group gets what comes while its queues are there and bound; what comes before is gone for it", x.groupsThere},
		{"queue_type", "a classic queue has one copy, and may lose what it has confirmed", x.queueTypes},
		{"queue_members", "an acknowledged event lives as long as a majority of its queue's members does", x.members},
	}
}

func (x *examination) queueChecks() []check {
	return []check{
		{"members_online", "a queue without a majority of its members takes nothing and gives nothing", x.online},
		{"queue_policies", "a policy changes what a queue was declared with, at once and without a word to its owner", x.queuePolicies},
		{"consumer_timeout", "a delivery that takes longer loses its channel, and its records come again", x.consumerTimeout},
		{"dead_queues", "what RabbitMQ has delivered too often lies there until somebody looks", x.deadQueues},
	}
}

func (x *examination) seen() (doctor.Diagnosis, error) {
	switch {
	case len(x.missing) > 0:
		return doctor.Diagnose(doctor.Warn, "not there: "+doctor.Enumerated(x.missing), "settle serve makes them at its start, and the queues of the groups that it is told"), nil
	case len(x.topics) > 0:
		return doctor.Sound("%s", doctor.Enumerated(x.topics)), nil
	case x.topologyErr != nil:
		return doctor.Diagnosis{}, x.topologyErr
	}
	return doctor.Diagnose(doctor.Warn, "none has a group", "name them with --topic, or let a group subscribe"), nil
}

func (x *examination) exchangeKinds() (doctor.Diagnosis, error) {
	if err := x.cantSeePolicies(); err != nil {
		return doctor.Diagnosis{}, err
	}
	var p doctor.Problems
	for _, topic := range x.topics {
		e, is := x.exchange(topic)
		if !is {
			continue // made meanwhile
		}
		again := "when its queues are empty: rabbitmqadmin delete exchange name=" + topic + "; then settle serve makes it again"
		if !e.Durable || e.AutoDelete {
			p.Add(doctor.Bad, topic, "not durable", again)
		}
		if e.Type != exchangeFanout && e.Type != "topic" {
			p.Add(doctor.Bad, topic, "of type "+e.Type+", which passes an event on by its key alone", again)
		}
		if other, is := e.Arguments["alternate-exchange"]; is {
			p.Add(doctor.Bad, topic, fmt.Sprintf("what no queue takes goes to %q and counts as taken", other), again)
		}
		for _, in := range x.inForce(topic, "exchanges") {
			if other, is := in.Definition["alternate-exchange"]; is {
				p.Add(doctor.Bad, topic, fmt.Sprintf("policy %q: what no queue takes goes to %q and counts as taken", in.Name, other), in.clear(x.at.vhost))
			}
		}
	}
	return p.Diagnosis("durable, and what nobody takes comes back"), nil
}

func (x *examination) bound(from, to, kind string) bool {
	return slices.ContainsFunc(x.bindings, func(b bindingSeen) bool { return b.Source == from && b.To == to && b.Kind == kind })
}

func (x *examination) groupsThere() (doctor.Diagnosis, error) {
	if x.topologyErr != nil {
		return doctor.Diagnosis{}, x.topologyErr
	}
	const again = "restart a member of the group, or settle serve with the group in groups of its source: it declares what is missing"
	var p doctor.Problems
	for _, topic := range x.topics {
		if len(x.groups[topic]) == 0 {
			p.Add(doctor.Warn, topic, "no group is there: nothing can be published to it", "name the groups in groups of the source of settle serve, or let one subscribe")
		}
		for _, group := range x.groups[topic] {
			inner := groupName(topic, group)
			_, is := x.exchange(inner)
			queues := x.partitionsOf(topic, group)
			switch {
			case !is || len(queues) == 0:
				p.Add(doctor.Bad, inner, "its exchange or its queues are missing", again)
				continue
			case !x.bound(topic, inner, "exchange"):
				p.Add(doctor.Bad, inner, "not bound to its topic: it gets nothing", again)
			}
			if _, is := x.queue(deadName(topic, group)); !is {
				p.Add(doctor.Bad, inner, "its queue of dead ones is missing: what is delivered too often stays, and holds up the rest", again)
			}
			for _, q := range queues {
				if !x.bound(inner, q.Name, "queue") {
					p.Add(doctor.Bad, q.Name, "not bound: keys go to the other queues", again)
				}
			}
			for _, q := range x.queues {
				if strings.HasPrefix(q.Name, inner+".") && x.bound(inner, q.Name, "queue") && !slices.ContainsFunc(queues, func(o queueSeen) bool { return o.Name == q.Name }) {
					p.Add(doctor.Bad, q.Name, "a queue before it is missing, and nobody may read this one", again)
				}
			}
		}
	}
	return p.Diagnosis("all are there and bound"), nil
}

func (x *examination) queueTypes() (doctor.Diagnosis, error) {
	if x.topologyErr != nil {
		return doctor.Diagnosis{}, x.topologyErr
	}
	const again = "stop its consumers, delete it when it is empty, and let its owner declare it with x-queue-type quorum"
	var p doctor.Problems
	for _, q := range x.own() {
		if q.Type != "quorum" {
			p.Add(doctor.Bad, q.Name, q.Type, again)
		}
	}
	for _, q := range x.queues {
		for _, topic := range x.topics {
			if !q.Exclusive && (q.Type == "classic" || !q.Durable) && x.bound(topic, q.Name, "queue") {
				p.Add(doctor.Warn, q.Name, "a queue of others is "+q.Type+": what it is to keep dies with its node", again)
			}
		}
	}
	return p.Diagnosis("quorum"), nil
}

func (x *examination) members() (doctor.Diagnosis, error) {
	if x.topologyErr != nil {
		return doctor.Diagnosis{}, x.topologyErr
	}
	grow := "on each node that has none: rabbitmq-queues grow $(hostname) all --vhost-pattern " + shellWord(x.at.vhost)
	if x.nodesErr == nil && len(x.nodes) < wantedCopies {
		grow = fmt.Sprintf("run three nodes (there are %d now); then %s", len(x.nodes), grow)
	}
	var p doctor.Problems
	for _, q := range x.own() {
		switch n := len(q.Members); {
		case q.Type != "quorum": // which queue_type tells
		case n == 1:
			p.Add(doctor.Bad, q.Name, "one member, and the events die with its disk", grow)
		case n == 2:
			p.Add(doctor.Warn, q.Name, "two members: while one is away, nothing moves", grow)
		}
	}
	if len(x.own()) == 0 && x.nodesErr == nil && len(x.nodes) < wantedCopies {
		verdict := doctor.Bad
		if len(x.nodes) > 1 {
			verdict = doctor.Warn
		}
		return doctor.Diagnose(verdict, fmt.Sprintf("no queue yet, and those that are made will have %d", len(x.nodes)), "run three nodes"), nil
	}
	return p.Diagnosis("three or more"), nil
}

func (x *examination) online() (doctor.Diagnosis, error) {
	if x.topologyErr != nil {
		return doctor.Diagnosis{}, x.topologyErr
	}
	var p doctor.Problems
	for _, q := range x.own() {
		away := slices.DeleteFunc(slices.Clone(q.Members), func(n string) bool { return slices.Contains(q.Online, n) })
		switch fix := "start " + doctor.Enumerated(away) + "; rabbitmq-queues quorum_status NAME shows a queue"; {
		case len(away) == 0 || q.Type != "quorum":
		case 2*len(away) >= len(q.Members):
			p.Add(doctor.Bad, q.Name, "no majority", fix)
		default:
			p.Add(doctor.Warn, q.Name, "not on "+doctor.Enumerated(away), fix)
		}
	}
	return p.Diagnosis("all are"), nil
}

// consumerTimeout can't see the server's own: only a node's tools do.
func (x *examination) consumerTimeout() (doctor.Diagnosis, error) {
	if err := x.cantSeePolicies(); err != nil {
		return doctor.Diagnosis{}, err
	}
	var p doctor.Problems
	for _, q := range x.own() {
		for _, in := range x.inForce(q.Name, "queues", "quorum_queues") {
			if ms, is := in.Definition["consumer-timeout"].(float64); is && ms < consumerTimeoutAtLeast {
				p.Add(doctor.Warn, q.Name, fmt.Sprintf("policy %q: %v ms", in.Name, ms), in.clear(x.at.vhost))
			}
		}
	}
	return p.Diagnosis("no policy shortens it; the server's own, 30 minutes unless rabbitmq.conf says else, its API does not tell"), nil
}

func (x *examination) deadQueues() (doctor.Diagnosis, error) {
	if len(x.dead) == 0 && x.topologyErr != nil {
		return doctor.Diagnosis{}, x.topologyErr
	}
	var p doctor.Problems
	for _, name := range slices.Sorted(maps.Keys(x.dead)) {
		if n := x.dead[name]; n > 0 {
			p.Add(doctor.Warn, name, fmt.Sprintf("holds %d events", n), "look at them in the management UI, find out why their consumers died, and move them back with a shovel, or purge them")
		}
	}
	return p.Diagnosis("empty"), nil
}
