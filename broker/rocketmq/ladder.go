package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

// Topics of a consumer group's failed messages, which RocketMQ names.
const (
	retryPrefix = "%RETRY%"
	deadPrefix  = "%DLQ%"
)

const (
	maxSteps      = 16
	settingLevels = "messageDelayLevel"
)

// ladder is a group whose consumers send back what failed: the broker brings it again
// after one of its delay levels, and puts it away after so many times.
type ladder struct {
	topic, group string
	steps        []time.Duration
}

func ladderOf(spec bridge.Ladder) (ladder, error) {
	l := ladder{topic: spec.Topic, group: spec.Group, steps: spec.Steps}
	if len(l.steps) == 0 {
		l.steps = bridge.DefaultSteps()
	}
	switch why := badGroup(l.group); {
	case why != "":
		return l, errors.New(why)
	case badTopic(l.topic) != "":
		return l, errors.New(badTopic(l.topic))
	case spec.Queue != "":
		return l, fmt.Errorf("a queue is named, %q; on RocketMQ a group reads all queues of its topic", spec.Queue)
	case len(l.steps) > maxSteps:
		return l, fmt.Errorf("a ladder has at most %d steps, not %d", maxSteps, len(l.steps))
	}
	return l, nil
}

// Declare implements bridge.Broker. It makes the group with as many retries as there
// are steps, and its topics of failed messages, at each master: a topic that a broker
// makes by itself is seen by consumers half a minute late. How long a message waits
// is said by the consumer as it sends it back; a step has to be one of the broker's
// delay levels.
func (b *Broker) Declare(ctx context.Context, spec bridge.Ladder) (bridge.Group, error) {
	l, err := ladderOf(spec)
	if err == nil {
		err = b.climbable(ctx, l)
	}
	if err != nil {
		return bridge.Group{}, fmt.Errorf("declare the ladder of group %q: %w", spec.Group, err)
	}
	return bridge.Group{Name: l.group, Dead: []string{deadPrefix + l.group}, Retry: retryPrefix + l.group}, nil
}

func (b *Broker) climbable(ctx context.Context, l ladder) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.Done()
	ctx, cancel := b.living(ctx)
	defer cancel()
	if _, err := b.topic(ctx, l.topic); err != nil {
		return err
	}
	masters, err := b.masters(ctx)
	if err != nil {
		return classify(err)
	}
	for name, addr := range masters {
		if err := b.rungs(ctx, l, addr); err != nil {
			known := classify(err)
			return &settle.PublishError{Scope: known.Scope, Err: fmt.Errorf("at broker %q: %w", name, known.Err)}
		}
	}
	return b.rungsKnown(ctx, l)
}

// rungs makes what a ladder needs at one master, where it is missing.
func (b *Broker) rungs(ctx context.Context, l ladder, addr string) error {
	settings, err := b.wire.Settings(ctx, addr)
	if err != nil && !remoting.IsRefusal(err, remoting.NoRight) {
		return err
	}
	if err == nil {
		if err := expressible(l.steps, settings[settingLevels]); err != nil {
			return unfit(err.Error())
		}
	}
	if err := b.makeGroup(ctx, l, addr); err != nil {
		return err
	}
	for _, name := range []string{retryPrefix + l.group, deadPrefix + l.group} {
		found, err := b.wire.TopicAt(ctx, addr, name)
		switch {
		case remoting.IsRefusal(err, remoting.TopicMissing):
			err = b.wire.SetTopic(ctx, addr, remoting.Topic{Name: name, Read: 1, Write: 1, Perm: remoting.PermRead | remoting.PermWrite})
		case err == nil && found.Perm&remoting.PermRead == 0:
			err = unfit(fmt.Sprintf("topic %q exists and may not be read (perm %d); mqadmin updateTopicPerm -p 6", name, found.Perm))
		}
		if err != nil {
			return fmt.Errorf("make topic %q: %w", name, err)
		}
	}
	return nil
}

func (b *Broker) makeGroup(ctx context.Context, l ladder, addr string) error {
	groups, err := b.wire.Groups(ctx, addr)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(groups, func(g remoting.Group) bool { return g.Name == l.group })
	if at < 0 {
		return b.wire.SetGroup(ctx, addr, remoting.Group{Name: l.group, Enabled: true, Retries: len(l.steps), RetryQueues: 1})
	}
	if found := groups[at].Retries; found != len(l.steps) {
		return unfit(fmt.Sprintf("the group exists and its messages come again %d times (retryMaxTimes), not %d as there are steps; mqadmin updateSubGroup -g %s -r %d, or say as many steps",
			found, len(l.steps), l.group, len(l.steps)))
	}
	return nil
}

// unfit is the error of what is there and is not what a ladder needs.
func unfit(why string) *settle.PublishError {
	return &settle.PublishError{Scope: settle.ScopeTopic, Err: errors.New(why)}
}

// rungsKnown waits until name servers know the topics.
func (b *Broker) rungsKnown(ctx context.Context, l ladder) error {
	ctx, cancel := context.WithTimeout(ctx, 2*b.cfg.Timeout)
	defer cancel()
	for _, name := range []string{retryPrefix + l.group, deadPrefix + l.group} {
		for {
			_, err := b.routes.ask(ctx, name)
			if err == nil {
				break
			}
			if settle.ScopeOf(err) != settle.ScopeTopic || !pause(ctx, madeWait) {
				return err
			}
		}
	}
	return nil
}

// expressible returns an error that names the nearest delay levels of the first step
// which is none. levels is the broker's list, "1s 5s 10s".
func expressible(steps []time.Duration, levels string) error {
	have, err := parseLevels(levels)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if slices.Contains(have, step) {
			continue
		}
		var near []string
		below, above := nearest(have, step)
		for _, level := range []time.Duration{below, above} {
			if level > 0 {
				near = append(near, level.String())
			}
		}
		return fmt.Errorf("a step of %s is not one of the broker's delay levels (%s: %s); the nearest are %s", step, settingLevels, levels, strings.Join(near, " and "))
	}
	return nil
}

// nearest returns the greatest level below a wait and the smallest above it, 0 for
// none.
func nearest(levels []time.Duration, wait time.Duration) (below, above time.Duration) {
	for _, level := range levels {
		if level < wait && level > below {
			below = level
		}
		if level > wait && (above == 0 || level < above) {
			above = level
		}
	}
	return below, above
}

func parseLevels(text string) ([]time.Duration, error) {
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	var all []time.Duration
	for word := range strings.FieldsSeq(text) {
		n, err := strconv.ParseInt(word[:len(word)-1], 10, 32)
		unit := units[word[len(word)-1]]
		if err != nil || unit == 0 || n <= 0 {
			return nil, fmt.Errorf("the broker's delay levels can't be read (%s: %s)", settingLevels, text)
		}
		all = append(all, time.Duration(n)*unit)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the broker has no delay levels (%s)", settingLevels)
	}
	return all, nil
}
