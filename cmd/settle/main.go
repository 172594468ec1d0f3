// Command settle is the toolkit's command line: relays, migrations, demo, shop,
// trail, dead letters, pauses and benchmarks. See package cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/settlemq/settle/cli"
)

// oneWish is how long signals that follow the first one say nothing new.
const oneWish = time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Whoever interrupts for a second time does not want to wait. Within a
	// moment it is the same wish: wrappers and terminals send a signal to a
	// process and to its group.
	context.AfterFunc(ctx, func() {
		time.Sleep(oneWish)
		stop()
	})
	os.Exit(cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, cli.Hooks{}))
}
