// Package cli holds the commands of the settle program, one file each. Main
// runs one command line; it never calls os.Exit, so that tests can run it in
// process.
package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Streams are the program's standard streams.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Hooks let a test main reach into the product; the product passes none.
type Hooks struct {
	// Crash is called at every named crash point. Defaults to nil: nothing.
	Crash func(point string)
}

// app is what commands share: streams and hooks.
type app struct {
	Streams
	Hooks
}

// Main runs args and returns the exit code.
func Main(ctx context.Context, args []string, s Streams, h Hooks) int {
	a := &app{Streams: s, Hooks: h}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		_, _ = fmt.Fprintf(s.Err, "settle: %s\n", legibleLines(err.Error(), ""))
	}
	return exitCode(err)
}

func (a *app) root() *cobra.Command {
	root := group("settle", "Reliable message delivery: a fact, its event, one effect")
	root.Long = "Settle delivers the events that a business commits, applies each once in effect,\nand shows whatever has not settled yet, with its age and its cause."
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%v; %s", err, flagHint(c))
	})
	root.AddCommand(a.serveCommand(), a.migrateCommand(), a.doctorCommand(), a.demoCommand(), a.roleCommand(), a.shopCommand(), a.loadCommand(), a.trailCommand(), a.deadCommand(), a.pauseCommand(), a.resumeCommand(), a.skipCommand(), a.outboxCommand(), a.adviseCommand(), a.benchCommand(), a.configCommand(), a.versionCommand())
	return root
}

func commandNames(c *cobra.Command) []string {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// exactly refuses any other number of arguments, naming what is expected.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		if n == 0 {
			return usagef("%s takes no argument, but got %q", c.CommandPath(), args)
		}
		return usagef("%s takes %s, but got %d arguments", c.CommandPath(), what, len(args))
	}
}

// printJSON writes v as one indented JSON object.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
