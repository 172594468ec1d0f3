// Natsnode is one server of a NATS cluster for tests: scripts/services starts
// three of them. It takes the path of a configuration file as nats-server does.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "natsnode: %v\n", err)
		os.Exit(1)
	}
}

// run serves until SIGTERM.
func run(args []string) error {
	if len(args) != 1 {
		return errors.New("the path of a configuration file is missing")
	}
	options, err := server.ProcessConfigFile(args[0])
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	options.NoSigs = true
	s, err := server.NewServer(options)
	if err != nil {
		return fmt.Errorf("make server: %w", err)
	}
	s.ConfigureLogger()
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return errors.New("the server takes no connections; its log says why")
	}
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM)
	<-ends
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
