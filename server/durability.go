package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/doctor"
)

func (c SourceConfig) lax() bool { return c.Durability == DurabilityLax }

func (c SourceConfig) brokerLax() bool {
	return c.BrokerDurability == DurabilityLax || c.BrokerDurability == "" && c.lax()
}

// judged asks whether the database may lose what it has committed. Each text
// names what was found and what mends it: unsafe is what breaks a promise,
// doubtful what may.
func (c SourceConfig) judged(ctx context.Context) (unsafe, doubtful []string, err error) {
	of, err := dial.Doctor(c.DB)
	if err != nil {
		return nil, nil, err
	}
	return judge(ctx, of)
}

// brokerJudged asks the same of the broker at a URL: whether it may lose what
// it has acknowledged. Of the embedded one, which syncs always, and of one that
// is not examined nothing is said. name is "" for the source's own.
func (c SourceConfig) brokerJudged(ctx context.Context, name, url string) (unsafe, doubtful []string, err error) {
	if isEmbedded(c.brokers()[name]) {
		return nil, nil, nil
	}
	of, err := dial.BrokerDoctor(url, c.BrokerDoctor(name))
	if errors.Is(err, dial.ErrNotExamined) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return judge(ctx, of)
}

// BrokerDoctor says what of a broker, named as in BrokerNames, is examined: the
// topics that are made there, or else at Broker, or the one that events without
// a topic go to.
func (c SourceConfig) BrokerDoctor(broker string) dial.BrokerDoctorConfig {
	topics := c.topicsAt(broker)
	if len(topics) == 0 {
		topics = c.Topics
	}
	if len(topics) == 0 {
		topics = []string{settle.DefaultTopic}
	}
	return dial.BrokerDoctorConfig{Topics: topics, Groups: c.Groups, KeepFor: c.Relay.KeepFor}
}

func judge(ctx context.Context, of doctor.Checker) (unsafe, doubtful []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	findings, err := of.Durability(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range findings {
		text := fmt.Sprintf("%s: %s (%s); to mend it: %s", f.Check, f.Found, f.Why, f.Fix)
		switch f.Verdict {
		case doctor.Bad:
			unsafe = append(unsafe, text)
		case doctor.Warn:
			doubtful = append(doubtful, text)
		case doctor.OK:
		}
	}
	return unsafe, doubtful, nil
}

// refusal is the sentence for a database that is not relayed.
func refusal(unsafe []string) error {
	return fmt.Errorf("the database may lose what it has committed, so nothing of it is relayed until that is mended, or the source says durability: lax: %s", strings.Join(unsafe, "; and "))
}

// brokerRefusal is the sentence for a broker that is not relayed to.
func brokerRefusal(unsafe []string) error {
	return fmt.Errorf("the broker may lose what it has acknowledged, so nothing is relayed to it until that is mended, or the source says broker_durability: lax: %s", strings.Join(unsafe, "; and "))
}

// howToMigrate adds the command to an error that says that tables are missing
// or old.
func howToMigrate(err error) error {
	if errors.Is(err, dial.ErrForeign) || errors.Is(err, dial.ErrOlder) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; run `settle migrate -c FILE` with this file, or `settle migrate --db URL`, or say migrate: true; an outbox that another program has made is read with `settle migrate --adopt`", err)
	}
	return err
}
