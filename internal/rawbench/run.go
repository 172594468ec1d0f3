package rawbench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/broker/nats/embedded"
)

// Config of a run. The zero value measures what the README quotes.
type Config struct {
	// Dir keeps the databases and the broker's files. Required.
	Dir string
	// Events per figure. Defaults to 50,000; figures that commit each event by
	// itself take a tenth.
	Events int
	// Step is told what is measured next. Defaults to nil: nothing.
	Step func(name string, i, of int)
}

// scene is one thing that is measured: it adds its figures to the report.
type scene struct {
	name string
	run  func(*bench, context.Context) error
}

// bench is what the scenes share.
type bench struct {
	cfg    Config
	url    string
	report Report
}

// Run measures everything once, in one process, on an embedded JetStream
// server with the product's durability.
func Run(ctx context.Context, cfg Config) (_ Report, err error) {
	if cfg.Events <= 0 {
		cfg.Events = 50_000
	}
	server, err := embedded.Start(embedded.Config{Dir: filepath.Join(cfg.Dir, "broker")})
	if err != nil {
		return Report{}, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(serving) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	b := &bench{cfg: cfg, url: server.URL(), report: newReport()}
	scenes := []scene{
		{"append, one event a commit", func(b *bench, ctx context.Context) error { return b.append(ctx, cfg.Events/10, 1) }},
		{"append, 100 events a commit", func(b *bench, ctx context.Context) error { return b.append(ctx, cfg.Events, 100) }},
		{"relay", (*bench).relayFigures},
		{"consume", (*bench).consumeFigures},
		{"end to end", (*bench).endToEnd},
	}
	for i, s := range scenes {
		if cfg.Step != nil {
			cfg.Step(s.name, i+1, len(scenes))
		}
		if err := s.run(b, ctx); err != nil {
			return b.report, fmt.Errorf("measure %s: %w", s.name, err)
		}
	}
	return b.report, nil
}

func (b *bench) append(ctx context.Context, events, batch int) error {
	name := fmt.Sprintf("append, %d a commit", batch)
	took, err := rawSQLite(ctx, filepath.Join(b.cfg.Dir, fmt.Sprintf("raw-append-%d.db", batch)), events, batch)
	if err != nil {
		return err
	}
	b.report.add("raw SQLite, "+name, events, took)
	db, err := open(ctx, filepath.Join(b.cfg.Dir, fmt.Sprintf("append-%d.db", batch)), topic)
	if err != nil {
		return err
	}
	defer db.Close()
	began := time.Now()
	if err := db.fill(ctx, events, batch); err != nil {
		return err
	}
	b.report.add("Settle, "+name, events, time.Since(began))
	b.report.against("raw SQLite, "+name, 0)
	return nil
}

func (b *bench) relayFigures(ctx context.Context) error {
	took, err := rawSingles(ctx, b.url, b.cfg.Events/10)
	if err != nil {
		return err
	}
	b.report.add("raw JetStream, singles", b.cfg.Events/10, took)
	for _, batch := range []int{100, 500} {
		took, err := rawAtomic(ctx, b.url, b.cfg.Events, batch)
		if err != nil {
			return err
		}
		b.report.add(fmt.Sprintf("raw JetStream, batches of %d", batch), b.cfg.Events, took)
	}
	db, err := open(ctx, filepath.Join(b.cfg.Dir, "relay.db"), topic)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.fill(ctx, b.cfg.Events, 1000); err != nil {
		return err
	}
	broker, err := nats.Open(ctx, b.url, nats.Config{Topics: []string{topic}})
	if err != nil {
		return err
	}
	defer broker.Close()
	if took, err = db.relayAll(ctx, broker, b.cfg.Events); err != nil {
		return err
	}
	b.report.add("Settle relay", b.cfg.Events, took)
	b.report.against("raw JetStream, batches of 500", 0.8)
	return nil
}

func (b *bench) consumeFigures(ctx context.Context) error {
	const name = "raw SQLite, 256 a commit"
	took, err := rawSQLite(ctx, filepath.Join(b.cfg.Dir, "raw-consume.db"), b.cfg.Events, 256)
	if err != nil {
		return err
	}
	b.report.add(name, b.cfg.Events, took)
	db, err := open(ctx, filepath.Join(b.cfg.Dir, "consume.db"), topic)
	if err != nil {
		return err
	}
	defer db.Close()
	broker, err := nats.Open(ctx, b.url, nats.Config{Topics: []string{topic}})
	if err != nil {
		return err
	}
	defer broker.Close()
	// The relay's figures left exactly this many events in the topic.
	if took, err = db.consumeAll(ctx, broker, b.cfg.Events); err != nil {
		return err
	}
	b.report.add("Settle consumer", b.cfg.Events, took)
	b.report.against(name, 0.5)
	return nil
}

// endToEnd appends, relays and consumes at the same time, two databases.
func (b *bench) endToEnd(ctx context.Context) error {
	took, heap, err := EndToEnd(ctx, filepath.Join(b.cfg.Dir, "e2e"), b.url, b.cfg.Events)
	if err != nil {
		return err
	}
	f := b.report.add("Settle, append to effect", b.cfg.Events, took)
	f.HeapMB, f.Goal = heap, 12_000
	return nil
}
