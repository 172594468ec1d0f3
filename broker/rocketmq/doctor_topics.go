package rocketmq

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/settlemq/settle/broker/rocketmq/remoting"
	"github.com/settlemq/settle/doctor"
)

func (x *examination) topicChecks() []check {
	return []check{
		{"topics", "what is not there can't be published to, unless the relay makes it on first use", x.topicsThere},
		{"topic_permission", "a topic that takes nothing holds its events in the outbox; one that gives nothing holds its consumers", x.permissions},
		{"topic_queues", "a key's events go to one queue; each is read by one consumer of a group at a time", x.queues},
		{"topic_order", "the queue of a key is chosen from a list of all of a topic's queues: where name servers keep none, the list is shorter while a node is away, and keys move", x.order},
	}
}

func (x *examination) topicsThere() (doctor.Diagnosis, error) {
	var found, fixes []string
	if len(x.impossible) > 0 {
		found, fixes = append(found, "no names of topics: "+doctor.Enumerated(x.impossible)), append(fixes, "give events a topic that can be one")
	}
	if len(x.missing) > 0 {
		found = append(found, "not there: "+doctor.Enumerated(x.missing))
		fixes = append(fixes, "settle serve makes it on first use; or "+x.topic(x.missing[0], 8, 8))
	}
	if len(found) == 0 && len(x.topics) == 0 {
		found, fixes = append(found, "none is seen"), append(fixes, "name one with --topic")
	}
	if len(found) > 0 {
		return doctor.Diagnose(doctor.Warn, strings.Join(found, "; "), strings.Join(fixes, "; ")), nil
	}
	var names []string
	for _, t := range x.topics {
		names = append(names, t.name)
	}
	return doctor.Sound("%s", doctor.Enumerated(names)), nil
}

// topic is the command that makes or changes one.
func (x *examination) topic(name string, reads, writes int) string {
	return fmt.Sprintf("mqadmin updateTopic -n '%s' -c %s -t %s -r %d -w %d -p 6", strings.Join(x.at.servers, ";"), x.nodes[0].Cluster, name, reads, writes)
}

// each judges all topics as one.
func (x *examination) each(judge func(topicSeen, *doctor.Problems), good string, args ...any) (doctor.Diagnosis, error) {
	var p doctor.Problems
	for _, t := range x.topics {
		if t.err != nil {
			return doctor.Diagnosis{}, t.err
		}
		judge(t, &p)
	}
	return p.Diagnosis(good, args...), nil
}

func (x *examination) permissions() (doctor.Diagnosis, error) {
	return x.each(func(t topicSeen, p *doctor.Problems) {
		for _, broker := range slices.Sorted(maps.Keys(t.at)) {
			at := t.at[broker]
			fix := x.topic(t.name, at.Read, at.Write)
			if at.Perm&remoting.PermWrite == 0 {
				p.Add(doctor.Bad, t.name+" at "+broker, "nothing may be written", fix)
			}
			if at.Perm&remoting.PermRead == 0 {
				p.Add(doctor.Bad, t.name+" at "+broker, "nothing may be read", fix)
			}
		}
	}, "read and written")
}

func (x *examination) queues() (doctor.Diagnosis, error) {
	return x.each(func(t topicSeen, p *doctor.Problems) {
		total := 0
		for _, broker := range slices.Sorted(maps.Keys(t.at)) {
			at := t.at[broker]
			total += at.Write
			if at.Read < at.Write {
				p.Add(doctor.Bad, t.name+" at "+broker, fmt.Sprintf("%d queues are written and %d of them read", at.Write, at.Read), x.topic(t.name, at.Write, at.Write))
			}
		}
		if total == 1 {
			p.Add(doctor.Warn, t.name, "one queue: a second consumer of a group has nothing to do", "while it is empty: "+x.topic(t.name, 8, 8)+"; with messages in it keys would move and lose their order: make a new topic")
		}
		for _, n := range x.masters() {
			if _, is := t.at[n.Name]; !is {
				p.Add(doctor.Warn, t.name, "it has no queues at "+n.Name, "if that is not meant: make the topic there while it is empty; with messages in it keys would move")
			}
		}
	}, "several, all of which are read")
}

func (x *examination) order() (doctor.Diagnosis, error) {
	return x.each(func(t topicSeen, p *doctor.Problems) {
		const fix = "settle serve gives it one when it declares the topic (topics: of the source)"
		switch {
		case len(t.orders) > 1:
			p.Add(doctor.Warn, t.name, "name servers keep different lists", fix)
		case len(t.orders) == 1 && t.orders[0] == "":
			p.Add(doctor.Warn, t.name, "name servers keep no list of its queues", fix)
		case len(t.orders) == 1:
			x.ordered(t, t.orders[0], p)
		}
	}, "name servers keep the list of its queues")
}

// ordered finds queues of a list that are not there.
func (x *examination) ordered(t topicSeen, order string, p *doctor.Problems) {
	list, err := parseOrder(order)
	if err != nil {
		p.Add(doctor.Bad, t.name, "the list of its queues can't be read: "+flat(err), "mqadmin updateOrderConf -m put with broker-a:8;broker-b:8")
		return
	}
	var gone []string
	for _, q := range list {
		if at, is := t.at[q.broker]; (!is && x.seen(q.broker) || is && q.id >= at.Write) && !slices.Contains(gone, q.String()) {
			gone = append(gone, q.String())
		}
	}
	if len(gone) > 0 {
		p.Add(doctor.Bad, t.name, "the list names queues that are not there, and their keys wait: "+doctor.Enumerated(gone), "make them with mqadmin updateTopic")
	}
}

// seen reports whether the master of a broker is there.
func (x *examination) seen(broker string) bool {
	return slices.ContainsFunc(x.masters(), func(n nodeSeen) bool { return n.Name == broker })
}
