package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/internal/configfile"
)

// BridgeConfig is a consumer group that is not ours, whose dead letters are
// brought into the source's database, and sent back when a person orders it.
type BridgeConfig struct {
	Broker string       `yaml:"broker" doc:"URL of the broker that the group reads from, with placeholders like db's: Kafka, RabbitMQ, RocketMQ or NATS" default:"as the source's"`
	Dead   []string     `yaml:"dead" doc:"its dead-letter topics (Kafka, RocketMQ's %DLQ%GROUP), queues (RabbitMQ) or the streams that its consumer reads (NATS)" default:"as the ladder's"`
	Retry  string       `yaml:"retry" doc:"what only this group reads, for what goes back to it alone: its queue (RabbitMQ), a retry topic (Kafka, RocketMQ's %RETRY%GROUP), a subject (NATS)" default:"as the ladder's, or none"`
	Ladder LadderConfig `yaml:"ladder" doc:"waits between the group's attempts, made at the broker at start; without a topic none is made"`
	// LeaseTTL and LookEvery are those of bridge.Config.
	LeaseTTL  time.Duration `yaml:"lease_ttl" doc:"how long a bridge leads without renewing; another takes over after it" default:"15s"`
	LookEvery time.Duration `yaml:"look_every" doc:"pause between two looks for letters that people have ordered back" default:"1s"`
}

// LadderConfig is a bridge.Ladder.
type LadderConfig struct {
	Topic string          `yaml:"topic" doc:"where the group's events come from: a topic (Kafka, RocketMQ, NATS), an exchange (RabbitMQ)" default:"none"`
	Queue string          `yaml:"queue" doc:"the group's queue (RabbitMQ)" default:"TOPIC.GROUP"`
	Steps []time.Duration `yaml:"steps" doc:"the waits before the second attempt, the third, and so on, at most 16; on RocketMQ its delay levels, on NATS the consumer's backoff" default:"[1m0s, 5m0s, 30m0s]"`
}

// bridges returns the names of the groups that are bridged, in order.
func (c SourceConfig) bridges() []string { return slices.Sorted(maps.Keys(c.Bridges)) }

// bridgeBroker is the URL of the broker that a group reads from.
func (c SourceConfig) bridgeBroker(group string) string {
	if own := c.Bridges[group].Broker; own != "" {
		return own
	}
	return c.Broker
}

// expandBridges replaces placeholders; it changes nothing of what c was made of.
func (c *SourceConfig) expandBridges() error {
	c.Bridges = maps.Clone(c.Bridges)
	for _, group := range c.bridges() {
		b := c.Bridges[group]
		var err error
		if b.Broker, err = expand(b.Broker, true); err != nil {
			return fmt.Errorf("bridges.%s.broker: %w", group, err)
		}
		c.Bridges[group] = b
	}
	return nil
}

// maxGroup is the longest name of a group that every broker and database takes.
const maxGroup = 100

func (c SourceConfig) wrongBridges() *configfile.Wrong {
	for _, group := range c.bridges() {
		if group == "" || len(group) > maxGroup || strings.ContainsFunc(group, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return &configfile.Wrong{Key: "bridges", Got: fmt.Sprintf("naming %q", group), Want: fmt.Sprintf("names of consumer groups, of at most %d printable characters", maxGroup)}
		}
		if w := c.Bridges[group].wrong(c.bridgeBroker(group)); w != nil {
			return w.Under("bridges." + group)
		}
	}
	return nil
}

func (b BridgeConfig) wrong(broker string) *configfile.Wrong {
	if broker == "" || broker == BrokerEmbedded {
		return &configfile.Wrong{Key: "broker", Want: "given, because the broker of the source is embedded: only Kafka, RabbitMQ, RocketMQ and NATS that run by themselves have dead letters of consumers that are not ours"}
	}
	if err := dial.CheckBridge(broker); err != nil {
		return &configfile.Wrong{Key: "broker", Want: "the URL of Kafka, RabbitMQ, RocketMQ or NATS: " + withoutText(err, broker)}
	}
	if slices.Contains(b.Dead, "") {
		return &configfile.Wrong{Key: "dead", Got: fmt.Sprintf("%q", b.Dead), Want: "names"}
	}
	l := b.Ladder
	switch {
	case b.LeaseTTL < 0 || b.LookEvery < 0:
		return &configfile.Wrong{Key: "lease_ttl", Want: "positive, and look_every, too"}
	case l.Topic == "" && (l.Queue != "" || len(l.Steps) > 0):
		return &configfile.Wrong{Key: "ladder.topic", Want: "given: where the group's events come from"}
	case l.Topic == "" && len(b.Dead) == 0:
		return &configfile.Wrong{Key: "dead", Want: "given: where the group's dead letters lie, or a ladder that has such a place"}
	case len(l.Steps) > maxSteps:
		return &configfile.Wrong{Key: "ladder.steps", Got: fmt.Sprintf("%d steps", len(l.Steps)), Want: fmt.Sprintf("at most %d", maxSteps)}
	}
	for _, step := range l.Steps {
		if step < time.Millisecond {
			return &configfile.Wrong{Key: "ladder.steps", Got: step, Want: "at least 1ms each"}
		}
	}
	return nil
}

// maxSteps is the longest ladder.
const maxSteps = 16

// group merges what the config says with what a ladder has made.
func (b BridgeConfig) group(name string, made bridge.Group) bridge.Group {
	g := bridge.Group{Name: name, Dead: b.Dead, Retry: b.Retry}
	if len(g.Dead) == 0 {
		g.Dead = made.Dead
	}
	if g.Retry == "" {
		g.Retry = made.Retry
	}
	return g
}
