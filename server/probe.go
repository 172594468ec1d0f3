package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

// probeWithin bounds Probe.
const probeWithin = 15 * time.Second

// Probed is what Probe found of one thing that a source needs.
type Probed struct {
	Source string
	// What is database, broker, or broker and its name.
	What string
	// Said is what was found.
	Said string
	// Err is nil when it can be used. It shows no secret.
	Err error
}

// Probe asks each database and each broker of a config once, all at the same
// time, for at most 15 s. It runs nothing, and makes no table and no topic.
// The results are in order of the sources' names, the database first; behind
// them are those of bridges.
func Probe(ctx context.Context, c Config) []Probed {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	names := c.names()
	n := 0
	for _, s := range c.Sources {
		n += 1 + len(s.brokers())
	}
	found := make([]Probed, n)
	var group sync.WaitGroup
	i := 0
	for _, name := range names {
		at := i
		group.Go(func() { found[at] = probed(c, name, "database", c.Sources[name].probeDB(ctx)) })
		for k, broker := range c.Sources[name].BrokerNames() {
			what := "broker"
			if broker != "" {
				what += " " + broker
			}
			group.Go(func() { found[at+1+k] = probed(c, name, what, c.probeBroker(ctx, c.Sources[name], broker)) })
		}
		i += 1 + len(c.Sources[name].brokers())
	}
	var bridges []Probed
	group.Go(func() { bridges = c.probeBridges(ctx) })
	group.Wait()
	return append(found, bridges...)
}

type answer struct {
	said string
	err  error
}

func probed(c Config, name, what string, a answer) Probed {
	return Probed{Source: name, What: what, Said: a.said, Err: c.HideError(a.err)}
}

func (c SourceConfig) probeDB(ctx context.Context) answer {
	db, err := dial.Store(ctx, c.DB, dial.StoreConfig{Existing: true})
	switch {
	case c.Migrate && (errors.Is(err, dial.ErrForeign) || errors.Is(err, fs.ErrNotExist)):
		return answer{said: "has no tables yet; serve makes them"}
	case c.Migrate && errors.Is(err, dial.ErrOlder):
		return answer{said: "has the tables of an older program; serve brings them up to date"}
	case err != nil:
		return answer{err: howToMigrate(err)}
	}
	unsafe, doubtful, err := c.judged(ctx)
	if len(unsafe) > 0 && !c.lax() {
		err = refusal(unsafe)
	}
	if err != nil {
		return answer{err: errors.Join(err, db.Close())}
	}
	said := "answers"
	if g, ok := db.Log.(relay.Gauge); ok {
		var b relay.Backlog
		if b, err = g.Backlog(ctx, backlogRows); err == nil {
			said = fmt.Sprintf("answers: %d events pending, %d parked", b.Pending, b.Parked)
		}
	}
	if d, ok := db.Governance.(govern.Divider); ok && err == nil {
		var lanes []govern.LaneStanding
		if lanes, err = d.LaneStandings(ctx); len(lanes) > 1 {
			said += fmt.Sprintf("; %d lanes", lanes[len(lanes)-1].Of)
		}
	}
	warnings := append(unsafe, doubtful...)
	if l, ok := db.Log.(relay.Lookout); ok && err == nil {
		var other relay.OtherRelay
		if other, err = l.OtherRelay(ctx); other.AtWork {
			warnings = append(warnings, warningOf(other))
		}
	}
	for _, text := range warnings {
		said += "; warning: " + text
	}
	return answer{said, errors.Join(err, db.Close())}
}

func (c Config) probeBroker(ctx context.Context, s SourceConfig, broker string) answer {
	url := s.brokers()[broker]
	if isEmbedded(url) {
		return c.Embedded.probe(ctx)
	}
	b, err := dial.Broker(ctx, url, dial.BrokerConfig{})
	if err != nil {
		return answer{err: err}
	}
	unsafe, doubtful, err := s.brokerJudged(ctx, broker, url)
	if len(unsafe) > 0 && !s.brokerLax() {
		err = brokerRefusal(unsafe)
	}
	said := "answers"
	for _, text := range append(unsafe, doubtful...) {
		said += "; warning: " + text
	}
	return answer{said, errors.Join(err, b.Close())}
}

// probe asks whether somebody serves the embedded broker. That nobody does is
// in order: serve will.
func (c EmbeddedConfig) probe(ctx context.Context) answer {
	if c.Port == 0 {
		c.Port = defaultPort
	}
	if c.Token == "" {
		b, err := os.ReadFile(filepath.Join(c.Dir, tokenFile))
		if errors.Is(err, fs.ErrNotExist) {
			return answer{said: "was never served; serve makes its directory"}
		}
		if err != nil {
			return answer{err: err}
		}
		c.Token = strings.TrimSpace(string(b))
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	b, err := dial.Broker(ctx, c.url(), dial.BrokerConfig{})
	if err != nil {
		return answer{said: "is not served now; serve does"}
	}
	return answer{"is served by another process", b.Close()}
}
