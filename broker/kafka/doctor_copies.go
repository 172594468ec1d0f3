package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/settlemq/settle/doctor"
)

// Settings of a topic that say what an acknowledgement proves.
const (
	settingInSync  = "min.insync.replicas"
	settingUnclean = "unclean.leader.election.enable"
)

func (x *examination) copyChecks() []check {
	return []check{
		{"topics", "what is looked at below; an event to a topic that is not there waits until it is", x.seen},
		{"replication_factor", "an acknowledged event lives as long as one of its copies does", x.copies},
		{"min_insync_replicas", "it is how many copies an acknowledgement proves, since all that are in sync may be one", x.inSync},
		{"unclean_leader_election", "a copy that is behind and comes to lead cuts off what the others have, acknowledged events among it", x.unclean},
		{"leaders", "a partition without a leader is not written and not read", x.leaders},
		{"in_sync_now", "a copy that is behind is none when it is needed", x.inSyncNow},
	}
}

func (x *examination) seen() (doctor.Diagnosis, error) {
	switch {
	case len(x.impossible) > 0:
		return doctor.Diagnose(doctor.Bad, "no names of topics: "+doctor.Enumerated(x.impossible), "give events of that topic another name of it"), nil
	case len(x.missing) > 0:
		return doctor.Diagnose(doctor.Warn, "not there: "+doctor.Enumerated(x.missing), "settle serve makes them as new_topics says; or "+x.threeNodes()+x.tools.create(x.missing[0])), nil
	case len(x.topics) == 0 && len(x.hidden) == 0:
		return doctor.Diagnose(doctor.Warn, "none is there, or none that this account may see", "name them with --topic; or let the account see them: "+x.tools.grant([]string{"Describe", "DescribeConfigs"}, "--topic '*'")), nil
	}
	var names []string
	for _, t := range x.topics {
		names = append(names, t.name)
	}
	return doctor.Sound("%s", doctor.Enumerated(append(names, x.hidden...))), nil
}

// each judges topic by topic. A topic whose settings are hidden is a problem of
// its own.
func (x *examination) each(judge func(t topicSeen, p *doctor.Problems) error, good string, args ...any) (doctor.Diagnosis, error) {
	switch {
	case len(x.topics) == 0 && len(x.hidden) > 0:
		return doctor.Diagnosis{}, kerr.TopicAuthorizationFailed
	case len(x.topics) == 0:
		return doctor.Sound("there is no topic to look at"), nil
	}
	var p doctor.Problems
	var hidden error
	for _, t := range x.topics {
		if err := judge(t, &p); err != nil {
			hidden = err
			p.Add(doctor.Warn, t.name, "can't be looked at: "+oneSentence(err), x.tools.toSee(err))
		}
	}
	if hidden != nil && p.OnlyOf() == len(x.topics) {
		return doctor.Diagnosis{}, hidden
	}
	return p.Diagnosis(good, args...), nil
}

// number is a setting of a topic.
func (t topicSeen) number(setting string) (int64, error) {
	text, err := t.text(setting)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

func (t topicSeen) text(setting string) (string, error) {
	if t.settingsErr != nil {
		return "", t.settingsErr
	}
	v, is := t.settings[setting]
	if !is {
		return "", errors.New("the cluster does not tell " + setting)
	}
	return v, nil
}

func (x *examination) copies() (doctor.Diagnosis, error) {
	return x.each(func(t topicSeen, p *doctor.Problems) error {
		if len(t.partitions) > 0 && fewest(t.partitions) == 1 {
			p.Add(doctor.Bad, t.name, "one copy, which dies with its node", x.moreTopicCopies(t.partitions))
		}
		return nil
	}, "two or more copies")
}

func (x *examination) moreTopicCopies(of []kadm.PartitionDetail) string {
	if len(x.nodes) < wantedCopies {
		return x.threeNodes() + "settle doctor prints the command that makes the copies"
	}
	return x.tools.copies(wantedCopies, x.nodes, of...)
}

func (x *examination) inSync() (doctor.Diagnosis, error) {
	return x.each(func(t topicSeen, p *doctor.Problems) error {
		n, err := t.number(settingInSync)
		if err != nil || len(t.partitions) == 0 {
			return err
		}
		copies := int64(fewest(t.partitions))
		switch {
		case n > copies:
			fix := x.tools.set(t.name, settingInSync, strconv.FormatInt(max(copies-1, 1), 10))
			if copies < wantedCopies && len(x.nodes) >= wantedCopies {
				fix = x.moreTopicCopies(t.partitions)
			}
			p.Add(doctor.Bad, t.name, fmt.Sprintf("%d of %d copies: nothing can be published", n, copies), fix)
		case copies == 1:
			// That is replication_factor's to say; one copy can prove no more.
		case n == 1:
			p.Add(doctor.Bad, t.name, fmt.Sprintf("1 of %d copies: an event that is acknowledged while the others are behind dies with one node", copies), x.tools.set(t.name, settingInSync, "2"))
		case n == copies:
			p.Add(doctor.Warn, t.name, fmt.Sprintf("all %d copies: while one node is away, nothing is published", copies), x.moreTopicCopies(t.partitions))
		}
		return nil
	}, "as many as there should be, and one node may be away")
}

func (x *examination) unclean() (doctor.Diagnosis, error) {
	return x.each(func(t topicSeen, p *doctor.Problems) error {
		v, err := t.text(settingUnclean)
		if err == nil && v == "true" {
			p.Add(doctor.Bad, t.name, "a copy that is behind may lead", x.tools.set(t.name, settingUnclean, "false"))
		}
		return err
	}, "only copies that have everything may lead")
}

func (x *examination) leaders() (doctor.Diagnosis, error) {
	return x.each(func(t topicSeen, p *doctor.Problems) error {
		var none []string
		var nodes []int32
		for _, part := range t.partitions {
			if part.Leader < 0 {
				none, nodes = append(none, strconv.Itoa(int(part.Partition))), slices.Concat(nodes, part.Replicas)
			}
		}
		if len(none) > 0 {
			p.Add(doctor.Bad, t.name, "no leader of partition "+doctor.Enumerated(none), "start a node that has a copy: "+x.away(nodes))
		}
		return nil
	}, "every partition has one")
}

// away lists the nodes that are not seen, or all where all are.
func (x *examination) away(nodes []int32) string {
	nodes = slices.Compact(slices.Sorted(slices.Values(nodes)))
	if gone := slices.DeleteFunc(slices.Clone(nodes), func(n int32) bool { return slices.Contains(x.nodes, n) }); len(gone) > 0 {
		nodes = gone
	}
	var names []string
	for _, n := range nodes {
		names = append(names, strconv.Itoa(int(n)))
	}
	return "node " + doctor.Enumerated(names)
}

func (x *examination) inSyncNow() (doctor.Diagnosis, error) {
	return x.each(func(t topicSeen, p *doctor.Problems) error {
		// What is enough to go on is told where the settings can be seen.
		enough, _ := t.number(settingInSync)
		var behind, stopped []int32
		for _, part := range t.partitions {
			late := slices.DeleteFunc(slices.Clone(part.Replicas), func(n int32) bool { return slices.Contains(part.ISR, n) })
			if len(late) == 0 {
				continue
			}
			behind = slices.Concat(behind, late)
			if int64(len(part.ISR)) < enough {
				stopped = append(stopped, part.Partition)
			}
		}
		fix := "start or look at " + x.away(behind) + "; kafka-topics.sh " + x.tools.at + " --describe --under-replicated-partitions lists the partitions"
		switch {
		case len(stopped) > 0:
			p.Add(doctor.Bad, t.name, fmt.Sprintf("%d partitions take no events, since fewer copies than %s are in sync", len(stopped), settingInSync), fix)
		case len(behind) > 0:
			p.Add(doctor.Warn, t.name, "copies on "+x.away(behind)+" are behind", fix)
		}
		return nil
	}, "all copies are")
}
