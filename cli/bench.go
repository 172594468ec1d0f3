package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/internal/rawbench"
)

func (a *app) benchCommand() *cobra.Command {
	return group("bench", "Measure Settle beside the raw machine", a.benchEmbeddedCommand())
}

func (a *app) benchEmbeddedCommand() *cobra.Command {
	var (
		cfg    rawbench.Config
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "embedded",
		Short: "SQLite and embedded JetStream: append, relay, consume, as ratios to raw",
		Args:  exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if cfg.Events < 1000 {
				return usagef("--events is %d; it must be 1000 or more, or the figures mean nothing", cfg.Events)
			}
			dir, err := os.MkdirTemp(cfg.Dir, "settle-bench-")
			if err != nil {
				return usagef("--dir: %w", err)
			}
			defer func() { _ = os.RemoveAll(dir) }()
			run := cfg
			run.Dir = dir
			run.Step = func(name string, i, of int) {
				_, _ = fmt.Fprintf(a.Err, "[%d/%d] %s\n", i, of, name)
			}
			report, err := rawbench.Run(c.Context(), run)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.Out, report)
			}
			return report.Print(a.Out)
		},
	}
	c.Flags().IntVar(&cfg.Events, "events", 50_000, "events per figure")
	c.Flags().StringVar(&cfg.Dir, "dir", "", "where the temporary files go: the disk that is measured (default: the system's temporary folder)")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object with ratio fields")
	return c
}
