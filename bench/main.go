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
	cfg, err := parse(args, said)
	if err != nil {
		return err
	}
	r, err := measure(ctx, cfg, command(args), said)
	if r.Interrupted {
		cfg.document = "" // it may replace one that is whole
		return errors.Join(err, r.deliver(cfg, out))
	}
	if err != nil {
		return err
	}
	return r.deliver(cfg, out)
}

func measure(ctx context.Context, cfg config, command string, said io.Writer) (r report, err error) {
	began := time.Now()
	s, err := connect(ctx, cfg.db)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.drop()) }()
	dir, err := os.MkdirTemp("", "settle-bench-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{cfg: cfg, server: s, dir: dir, said: said}
	b.report = report{Date: began.UTC().Truncate(time.Minute), Command: command, Events: cfg.events, Rounds: cfg.rounds, Rate: cfg.rate}
	if b.report.Machine, err = lookAround(ctx, s); err != nil {
		return r, err
	}
	b.prepare()
	err = b.all(ctx)
	b.summarise()
	b.report.judge()
	b.report.Took, b.report.Interrupted = time.Since(began).Seconds(), ctx.Err() != nil
	return b.report, err
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
	if _, err := fmt.Fprintln(out, r.told()); err != nil {
		return err
	}
	for _, t := range r.tables() {
		if err := t.text(out); err != nil {
			return err
		}
	}
	return nil
}
