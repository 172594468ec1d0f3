package shop

import (
	"fmt"
	"net"
	"time"

	"github.com/settlemq/settle/examples/shop/outside"
)

// OutsideConfig says where the outside systems are, how patient their callers
// are, and how the systems behave that run here. The zero value works.
type OutsideConfig struct {
	// Addresses are HOST:PORT by the systems' names (outside.Systems): where a
	// system listens that runs here, and where it is called from here. Each
	// defaults to a free port of 127.0.0.1, and to being called where the system
	// has written into Dir that it serves.
	Addresses map[string]string
	// Timeout bounds one call. Defaults to 2 s.
	Timeout time.Duration
	// BreakerFailures is how many calls of a system must fail in a row for its
	// breaker to open, BreakerWait how long it then lets nothing through.
	// Default to 5 and 1 s. Every process has breakers of its own.
	BreakerFailures int
	BreakerWait     time.Duration
	// DeclinePercent is the share of customers, 0 to 100, whose payments the
	// provider declines; those whose ids begin with "declined" always are.
	// Defaults to 0.
	DeclinePercent int
}

func (c OutsideConfig) check() error {
	for system, addr := range c.Addresses {
		if err := outside.CheckSystem(system); err != nil {
			return err
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("address of %s: %w", system, err)
		}
	}
	return nil
}
