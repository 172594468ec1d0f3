package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/settlemq/settle"
)

// Settings of a topic that matter to what it promises.
const (
	settingCleanup  = "cleanup.policy"
	settingKeepFor  = "retention.ms"
	settingMaxBytes = "max.message.bytes"
)

// ready makes a topic on its first use, where that is asked for. An error is
// a *settle.PublishError.
func (b *Broker) ready(ctx context.Context, name string) error {
	b.mu.Lock()
	done := b.declared[name] || !b.cfg.Declare
	b.mu.Unlock()
	if done {
		return nil
	}
	return b.declare(ctx, name, false)
}

// declare makes a topic where there is none. One that exists must keep every
// record, and if it is exact have the declared number of partitions. It is
// looked for first: who may write to a topic need not be one who may make it.
func (b *Broker) declare(ctx context.Context, name string, exact bool) error {
	if why := badTopic(name); why != "" {
		return noTopic(name, why)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*b.cfg.Timeout)
	defer cancel()
	made, err := b.make(ctx, name)
	if err == nil {
		var partitions int
		if partitions, err = b.served(ctx, name); err == nil && !made {
			err = b.check(ctx, name, partitions, exact)
		}
	}
	if err != nil {
		known := classify(err)
		return &settle.PublishError{Scope: known.Scope, Err: fmt.Errorf("declare topic %q: %w", name, known.Err)}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.declared[name] = true
	return nil
}

// make reports whether it made the topic, or it was there.
func (b *Broker) make(ctx context.Context, name string) (bool, error) {
	topics, err := b.admin.ListTopics(ctx, name)
	if err == nil {
		err = topics[name].Err
	}
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return false, err
	}
	partitions := b.cfg.Partitions
	setDefault(&partitions, defaultPartitions)
	replicas, err := b.replicas(ctx)
	if err != nil {
		return false, err
	}
	answer, err := b.admin.CreateTopic(ctx, int32(partitions), int16(replicas), b.settings(replicas), name)
	if err == nil {
		err = answer.Err
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, kerr.TopicAlreadyExists):
		return false, nil
	case isAny(err, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed):
		return false, &settle.PublishError{Scope: settle.ScopeTopic, Err: fmt.Errorf("it does not exist, and this user may not make it: %w", err)}
	case isAny(err, kerr.InvalidPartitions, kerr.InvalidReplicationFactor, kerr.InvalidReplicaAssignment):
		return false, &settle.PublishError{Scope: settle.ScopeTopic, Err: fmt.Errorf("it does not exist, and can't be made as it is declared: %w", err)}
	}
	return false, err
}

// forget makes the next use declare the topic again.
func (b *Broker) forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.declared, name)
}

// replicas is how many copies a topic gets. Out of the box a cluster gives one,
// whatever nodes it has, and what is acknowledged then dies with a node.
func (b *Broker) replicas(ctx context.Context) (int, error) {
	if b.cfg.Replicas > 0 {
		return b.cfg.Replicas, nil
	}
	nodes, err := b.admin.ListBrokers(ctx)
	return min(len(nodes), enoughReplicas), err
}

// enoughReplicas is how many copies survive a node that is down while another
// one dies.
const enoughReplicas = 3

func (b *Broker) settings(replicas int) map[string]*string {
	settings := map[string]*string{
		settingCleanup:  new("delete"),
		settingKeepFor:  new(strconv.FormatInt(b.cfg.KeepFor.Milliseconds(), 10)),
		settingMaxBytes: new(strconv.Itoa(b.cfg.MaxRecordBytes + recordOverhead)),
	}
	if replicas >= enoughReplicas { // all but one hold what is acknowledged
		settings[settingInSync] = new(strconv.Itoa(replicas - 1))
	}
	return settings
}

// served waits until every partition of a topic has a leader that brokers know
// of, which is some time behind its making, and returns their number.
func (b *Broker) served(ctx context.Context, name string) (int, error) {
	for {
		topics, err := b.admin.ListTopics(ctx, name)
		if err == nil {
			err = topics[name].Err
		}
		for _, p := range topics[name].Partitions {
			if err == nil {
				err = p.Err
			}
		}
		if n := len(topics[name].Partitions); err == nil && n > 0 {
			return n, nil
		}
		if err != nil && !kerr.IsRetriable(err) {
			return 0, err
		}
		if !pause(ctx, retryWait/4) {
			return 0, errors.Join(err, context.Cause(ctx))
		}
	}
}

// check looks at a topic that exists.
func (b *Broker) check(ctx context.Context, name string, partitions int, exact bool) error {
	wrong := func(format string, args ...any) error {
		return &settle.PublishError{Scope: settle.ScopeTopic, Err: fmt.Errorf("it exists and "+format, args...)}
	}
	if exact && b.cfg.Partitions > 0 && partitions != b.cfg.Partitions {
		return wrong("has %d partitions, declared are %d: adding some moves keys to others, and order is lost where they still have records", partitions, b.cfg.Partitions)
	}
	settings, err := b.admin.DescribeTopicConfigs(ctx, name)
	if errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return nil // who may not look is told by the doctor, not by the relay
	}
	if err != nil {
		return err
	}
	if policy := setting(settings, settingCleanup); strings.Contains(policy, "compact") {
		return wrong("keeps only the last record of each key (%s=%s): events before it would be gone", settingCleanup, policy)
	}
	return nil
}

func setting(all kadm.ResourceConfigs, name string) string {
	for _, resource := range all {
		for _, c := range resource.Configs {
			if c.Key == name && c.Value != nil {
				return *c.Value
			}
		}
	}
	return ""
}

// noTopic is the error of an event whose topic can't be one of Kafka's: no
// waiting makes it one, so it is the event's own, and others go on.
func noTopic(name, why string) error {
	return &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(fmt.Errorf("topic %q can't be: %s", name, why))}
}

// badTopic says why a topic can't be one of Kafka's, or of those that anybody
// writes to.
func badTopic(name string) string {
	switch {
	case name == "__consumer_offsets" || name == "__transaction_state" || name == "__share_group_state":
		return "it is Kafka's own"
	case len(name) > 249:
		return "a topic of Kafka has at most 249 characters"
	case name == "." || name == "..":
		return "a topic of Kafka is not . or .."
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return fmt.Sprintf("a topic of Kafka is made of letters, digits, dots, - and _, not %q", c)
		}
	}
	return ""
}
