// Command settle is the toolkit's command line: demo, shop, trail, dead
// letters, pauses and benchmarks. See package cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/settlemq/settle/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Whoever interrupts for a second time does not want to wait.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, cli.Hooks{}))
}
