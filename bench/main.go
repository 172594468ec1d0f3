package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := start(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// start runs what the arguments ask for: the bench, or one contender of it.
func start(ctx context.Context, args []string, out, said io.Writer) error {
	if len(args) > 0 && args[0] == carryWord {
		return carry(args[1:])
	}
	if len(args) > 0 && args[0] == turnWord {
		return takeTurn(args[1:])
	}
	cfg, err := parse(args, said)
	if err != nil {
		return err
	}
	r, err := measure(ctx, cfg, command(args), said)
	if ctx.Err() != nil {
		cfg.document = "" // it may replace one that is whole
		return errors.Join(err, r.deliver(cfg, out))
	}
	if err != nil {
		return err
	}
	return r.deliver(cfg, out)
}

// measure runs the bench on each broker in turn, or else on each database.
func measure(ctx context.Context, cfg config, command string, said io.Writer) (r report, err error) {
	machine := lookAround()
	about := func(began time.Time) run {
		return run{Date: began.UTC().Truncate(time.Minute), Command: command, Machine: machine, Events: cfg.events, Rounds: cfg.rounds, Rate: cfg.rate,
			Took: time.Since(began).Seconds(), Interrupted: ctx.Err() != nil}
	}
	for _, at := range cfg.brokers {
		began := time.Now()
		p, err := measureAt(ctx, at, cfg, said)
		rounds := p.Run.Rounds
		p.Run = about(began)
		p.Run.Rounds = rounds
		r.Brokers = append(r.Brokers, p)
		if err != nil {
			return r, fmt.Errorf("on %s: %w", at.target.name, err)
		}
	}
	if len(cfg.brokers) > 0 {
		return r, nil
	}
	for _, at := range cfg.servers {
		began := time.Now()
		p, err := measureOn(ctx, at, cfg, said)
		if p.Run = about(began); len(p.Relays) > 0 {
			r.Parts = append(r.Parts, p)
		}
		if err != nil {
			return r, fmt.Errorf("on %s: %w", at.engine.name, err)
		}
	}
	return r, nil
}

func measureOn(ctx context.Context, at address, cfg config, said io.Writer) (_ part, err error) {
	s, err := at.engine.connect(ctx, at.url)
	if err != nil {
		return part{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	dir, err := os.MkdirTemp("", "settle-bench-")
	if err != nil {
		return part{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{cfg: cfg, engine: at.engine, server: s, dir: dir, said: said}
	if b.part.Database, err = s.describe(ctx); err != nil {
		return part{}, err
	}
	if b.part.Database.CommitMS, err = commitCost(ctx, s); err != nil {
		return part{}, err
	}
	b.prepare()
	err = b.all(ctx)
	b.summarise()
	b.part.judge(at.engine.aims)
	return b.part, err
}

// deliver prints the report and writes the files that were asked for.
func (r *report) deliver(cfg config, out io.Writer) error {
	if cfg.document != "" {
		if err := r.write(cfg.document); err != nil {
			return err
		}
	}
	encoded, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	switch cfg.jsonPath {
	case "":
	case "-":
		_, err := fmt.Fprintf(out, "%s\n", encoded)
		return err
	default:
		if err := os.WriteFile(cfg.jsonPath, append(encoded, '\n'), 0o644); err != nil {
			return err
		}
	}
	for _, told := range r.runs() {
		if _, err := fmt.Fprintln(out, told); err != nil {
			return err
		}
	}
	for _, t := range r.tables() {
		if err := t.text(out); err != nil {
			return err
		}
	}
	return nil
}
