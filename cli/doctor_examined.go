package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/server"
)

// examined is what a doctor command looks at: one database, one broker, or
// those of every source of a config file.
type examined struct {
	schemas

	broker  string
	topics  []string
	keepFor time.Duration
}

func (e *examined) flags(c *cobra.Command) {
	e.schemas.flags(c)
	c.Flags().StringVar(&e.broker, "broker", "", "URL of a broker, alone or beside --db; ${NAME} and ${file:/path} in it are replaced like in --db")
	c.Flags().StringArrayVar(&e.topics, "topic", nil, "a topic of the broker that is looked at, whether it is there or not; may be repeated (default: with -c those of the source; or else all)")
	c.Flags().DurationVar(&e.keepFor, "keep-for", 0, "how far back a consumer must be able to read a topic: how long one may be away, and how old what is replayed may be (default: with -c the source's relay.keep_for; or else 168h)")
}

// subject is a database or a broker, and the source that it is of.
type subject struct {
	source string
	doctor.Checker
}

// examine looks at everything, also behind what can't be reached.
func (e *examined) examine(ctx context.Context) (findings []sourceFinding, worst doctor.Verdict, unreached, err error) {
	cfg, subjects, err := e.subjects()
	if err != nil {
		return nil, "", nil, err
	}
	findings = []sourceFinding{}
	var all []doctor.Finding
	for _, s := range subjects {
		list, err := s.Check(ctx)
		if err != nil {
			unreached = errors.Join(unreached, fmt.Errorf("%s%w", prefixOf(s.source), cfg.HideError(err)))
		}
		for _, f := range list {
			f.Found, f.Fix = cfg.Hide(f.Found), cfg.Hide(f.Fix)
			all, findings = append(all, f), append(findings, sourceFinding{s.source, f})
		}
	}
	return findings, doctor.Worst(all), unreached, nil
}

func prefixOf(source string) string {
	if source == "" {
		return ""
	}
	return source + ": "
}

// subjects returns what is to be examined, and the config that knows what of it
// is secret.
func (e *examined) subjects() (cfg server.Config, all []subject, err error) {
	cfg, names, err := e.sources()
	if err != nil {
		return cfg, nil, err
	}
	for _, name := range names {
		source := cfg.Sources[name]
		if source.DB != "" {
			of, err := dial.Doctor(source.DB)
			if err != nil {
				return cfg, nil, usagef("%s--db: %w", prefixOf(name), err)
			}
			all = append(all, subject{name, of})
		}
		for _, broker := range source.BrokerNames() {
			of, err := e.brokerOf(source, broker)
			switch {
			case errors.Is(err, dial.ErrNotExamined) && e.broker == "":
				// A file may have sources of any broker.
			case err != nil:
				return cfg, nil, usagef("%s--broker: %w", prefixOf(name), err)
			case of != nil:
				all = append(all, subject{strings.TrimSpace(name + " " + broker), of})
			}
		}
	}
	return cfg, all, nil
}

func (e *examined) sources() (cfg server.Config, names []string, err error) {
	switch {
	case e.broker != "" && e.config != "":
		return cfg, nil, usagef("the config file names the brokers; take --broker or -c away")
	case e.keepFor < 0:
		return cfg, nil, usagef("--keep-for is a time from now back, for instance 168h")
	case e.broker == "" && e.config == "" && (len(e.topics) > 0 || e.keepFor > 0):
		return cfg, nil, usagef("--topic and --keep-for are about a broker; name it with --broker URL, or a config file with -c")
	case e.broker == "":
		cfg, names, err = e.named()
		if err != nil && e.db == "" && e.config == "" {
			err = usagef("name a database with --db URL, a broker with --broker URL, or a config file with -c; for instance --broker kafka://user:password@host:9092")
		}
		return cfg, names, err
	}
	var source server.SourceConfig
	if e.db != "" {
		if cfg, _, err = e.named(); err != nil {
			return cfg, nil, err
		}
		source = cfg.Sources[""]
	}
	if source.Broker, err = server.Expand(e.broker); err != nil {
		return cfg, nil, usagef("--broker: %w", err)
	}
	return server.Config{Sources: map[string]server.SourceConfig{"": source}}, []string{""}, nil
}

// brokerOf returns nil where a broker of a source is the embedded one.
func (e *examined) brokerOf(s server.SourceConfig, broker string) (doctor.Checker, error) {
	url := s.Broker
	if broker != "" {
		url = s.Brokers[broker]
	}
	if url == "" || url == server.BrokerEmbedded {
		return nil, nil
	}
	cfg := s.BrokerDoctor(broker)
	switch {
	case len(e.topics) > 0:
		cfg.Topics = e.topics
	case e.broker != "":
		cfg.Topics = nil
	default:
		cfg.Others = len(s.Topics) == 0
	}
	if e.keepFor > 0 {
		cfg.KeepFor = e.keepFor
	}
	return dial.BrokerDoctor(url, cfg)
}
