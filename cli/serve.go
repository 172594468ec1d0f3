package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/server"
)

func (a *app) serveCommand() *cobra.Command {
	var (
		config, listen string
		check, asJSON  bool
	)
	c := &cobra.Command{
		Use:   "serve -c FILE",
		Short: "Relay the outboxes of databases to brokers, for programs in any language",
		Long: "Serve carries what programs insert into t_outbox_event of the databases named in FILE to their brokers.\n" +
			"Any number of them with one FILE stand by for each other. A database or broker that does not answer is tried\n" +
			"again for ever and stops no other. On SIGTERM or Ctrl-C it sends what it has in hand, and ends.\n" +
			"settle config schema serve lists all that FILE may say; docs/settle.example.yml is one with comments.",
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if config == "" {
				return usagef("settle serve needs -c FILE; settle config schema serve lists what it may say")
			}
			cfg, err := readServeConfig(config)
			if err != nil {
				return err
			}
			if listen != "" {
				cfg.Listen = listen
				if err := cfg.Check(); err != nil {
					return usagef("--%w", err)
				}
			}
			if check {
				return a.probe(c.Context(), cfg, asJSON)
			}
			return a.serve(c.Context(), cfg, asJSON)
		},
	}
	c.Flags().StringVarP(&config, "config", "c", "", "config file")
	c.Flags().StringVar(&listen, "listen", "", "HOST:PORT of GET /healthz and /readyz, instead of the file's")
	c.Flags().BoolVar(&check, "check", false, "ask every database and broker once, say what was found, and end")
	c.Flags().BoolVar(&asJSON, "json", false, "log, or say, JSON")
	return c
}

// readServeConfig reads a file of settle serve.
func readServeConfig(path string) (server.Config, error) {
	cfg, err := server.ReadConfig(path)
	if err != nil {
		return cfg, usagef("%w", err)
	}
	return cfg, nil
}

func (a *app) serve(ctx context.Context, cfg server.Config, asJSON bool) error {
	cfg.Crash = a.Crash
	cfg.Logger = slog.New(slog.NewTextHandler(a.Err, nil))
	if asJSON {
		cfg.Logger = slog.New(slog.NewJSONHandler(a.Err, nil))
	}
	cfg.Ready = func(addr string) { cfg.Logger.Info("answering health checks", "address", addr) }
	err := server.New(cfg).Run(ctx)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return unreachablef("%w; end the program that listens there, or choose another address with --listen", err)
	case err != nil:
		return unreachablef("%w", err)
	}
	return nil
}

// probedLine is one line of serve --check.
type probedLine struct {
	Source string `json:"source"`
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Found  string `json:"found"`
}

// probe says how databases and brokers answer; one that does not ends the
// command with ExitUnreachable.
func (a *app) probe(ctx context.Context, cfg server.Config, asJSON bool) error {
	lines, silent := []probedLine{}, 0
	for _, p := range server.Probe(ctx, cfg) {
		line := probedLine{Source: p.Source, What: p.What, OK: p.Err == nil, Found: p.Said}
		if p.Err != nil {
			silent++
			line.Found = p.Err.Error()
		}
		lines = append(lines, line)
	}
	if asJSON {
		if err := printJSON(a.Out, lines); err != nil {
			return err
		}
	} else {
		for _, l := range lines {
			mark := "ok  "
			if !l.OK {
				mark = "FAIL"
			}
			if _, err := fmt.Fprintf(a.Out, "%s %s %s: %s\n", mark, l.Source, l.What, legible(l.Found)); err != nil {
				return err
			}
		}
	}
	if silent > 0 {
		return unreachablef("%d of %d can't be used; serve would go on trying", silent, len(lines))
	}
	return nil
}
