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

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
)

const (
	maxSteps = 16
	// deadKeepFor is how long dead letters are kept, at least: nobody may come by
	// to read them for a while.
	deadKeepFor = 30 * 24 * time.Hour
	// traceRoom is what a letter may be larger than the record that died: its
	// exception's stack is in its headers.
	traceRoom = 1 << 20
)

// ladder names the topics of a ladder as Spring's @RetryableTopic does with
// "-GROUP-retry" and "-GROUP-dlt" for its suffixes, and delays for its strategy.
type ladder struct {
	topic, group string
	steps        []time.Duration
}

func ladderOf(spec bridge.Ladder) (ladder, error) {
	l := ladder{topic: spec.Topic, group: spec.Group, steps: spec.Steps}
	if len(l.steps) == 0 {
		l.steps = bridge.DefaultSteps()
	}
	switch {
	case l.group == "":
		return l, errors.New("the group has no name")
	case l.topic == "":
		return l, errors.New("the topic has no name")
	case spec.Queue != "":
		return l, fmt.Errorf("a queue is named, %q, and Kafka has none", spec.Queue)
	case len(l.steps) > maxSteps:
		return l, fmt.Errorf("a ladder has at most %d steps, not %d", maxSteps, len(l.steps))
	}
	for _, wait := range l.steps {
		if wait < time.Millisecond {
			return l, fmt.Errorf("a step of a ladder lasts a millisecond at least, not %s", wait)
		}
	}
	for _, name := range append([]string{l.topic, l.dead()}, l.retries()...) {
		if why := badTopic(name); why != "" {
			return l, fmt.Errorf("topic %q: %s", name, why)
		}
	}
	return l, nil
}

func (l ladder) dead() string { return l.topic + "-" + l.group + "-dlt" }

func (l ladder) retry(step time.Duration) string {
	return l.topic + "-" + l.group + "-retry-" + strconv.FormatInt(step.Milliseconds(), 10)
}

// retries are the topics of the steps. Steps that last equally long share one.
func (l ladder) retries() []string {
	var names []string
	for _, step := range l.steps {
		if name := l.retry(step); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Declare implements bridge.Broker. It makes topics, and the consumer moves
// records from one to the next: Kafka does not. What goes back to the group goes
// to the first step's topic.
func (b *Broker) Declare(ctx context.Context, spec bridge.Ladder) (bridge.Group, error) {
	l, err := ladderOf(spec)
	if err == nil {
		err = b.climbable(ctx, l)
	}
	if err != nil {
		return bridge.Group{}, fmt.Errorf("declare the ladder of group %q: %w", spec.Group, err)
	}
	return bridge.Group{Name: l.group, Dead: []string{l.dead()}, Retry: l.retry(l.steps[0])}, nil
}

func (b *Broker) climbable(ctx context.Context, l ladder) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.end, cancel)()
	if b.cfg.Declare || slices.Contains(b.cfg.Topics, l.topic) {
		if err := b.declare(ctx, l.topic, false); err != nil {
			return err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, 2*b.cfg.Timeout)
	defer cancel()
	partitions, err := b.served(bounded, l.topic)
	if err != nil {
		return fmt.Errorf("look at topic %q: %w", l.topic, classify(err))
	}
	for _, step := range l.steps {
		if err := b.rung(ctx, l.retry(step), partitions, max(b.cfg.KeepFor, 2*step), step); err != nil {
			return err
		}
	}
	return b.rung(ctx, l.dead(), partitions, max(b.cfg.KeepFor, deadKeepFor), 0)
}

// rung makes a topic of a ladder, or looks whether one that is there will do: a
// consumer writes what failed to the partition of the same number.
func (b *Broker) rung(ctx context.Context, name string, partitions int, keepFor, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, 2*b.cfg.Timeout)
	defer cancel()
	made, err := b.makeRung(ctx, name, partitions, keepFor)
	if err == nil {
		var found int
		if found, err = b.served(ctx, name); err == nil && !made {
			err = b.checkRung(ctx, name, found, partitions, wait)
		}
	}
	if err != nil {
		known := classify(err)
		return &settle.PublishError{Scope: known.Scope, Err: fmt.Errorf("declare topic %q: %w", name, known.Err)}
	}
	return nil
}

func (b *Broker) makeRung(ctx context.Context, name string, partitions int, keepFor time.Duration) (bool, error) {
	topics, err := b.admin.ListTopics(ctx, name)
	if err == nil {
		err = topics[name].Err
	}
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return false, err
	}
	replicas, err := b.replicas(ctx)
	if err != nil {
		return false, err
	}
	settings := b.settings(replicas)
	settings[settingKeepFor] = new(strconv.FormatInt(keepFor.Milliseconds(), 10))
	settings[settingMaxBytes] = new(strconv.Itoa(b.cfg.MaxRecordBytes + recordOverhead + traceRoom))
	answer, err := b.admin.CreateTopic(ctx, int32(partitions), int16(replicas), settings, name)
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
	}
	return false, err
}

func (b *Broker) checkRung(ctx context.Context, name string, found, partitions int, wait time.Duration) error {
	wrong := func(format string, args ...any) error {
		return &settle.PublishError{Scope: settle.ScopeTopic, Err: fmt.Errorf("it exists and "+format, args...)}
	}
	if found < partitions {
		return wrong("has %d partitions, and the topic that it is for has %d: a consumer writes what failed to the partition of the same number; kafka-topics.sh --alter adds some", found, partitions)
	}
	settings, err := b.admin.DescribeTopicConfigs(ctx, name)
	if isAny(err, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed) {
		return nil
	}
	if err != nil {
		return err
	}
	if policy := setting(settings, settingCleanup); strings.Contains(policy, "compact") {
		return wrong("keeps only the last record of each key (%s=%s): others would be gone", settingCleanup, policy)
	}
	if keeps := keptFor(settings); keeps >= 0 && keeps <= wait {
		return wrong("deletes records after %s (%s), and they wait there for %s", keeps, settingKeepFor, wait)
	}
	return nil
}

// keptFor is a topic's retention, -1 for ever or where it is not told.
func keptFor(settings kadm.ResourceConfigs) time.Duration {
	ms, err := strconv.ParseInt(setting(settings, settingKeepFor), 10, 64)
	if err != nil || ms < 0 {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}
