package shop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/examples/shop/outside"
	"github.com/settlemq/settle/relay"
)

// RoleOrderAPI is the role of the order service's HTTP entry. Every service
// has two more: RelayRole and ConsumerRole. Every outside system is a role by
// its own name (outside.Systems).
const RoleOrderAPI = "order-api"

// RelayRole is the role that publishes a service's events.
func RelayRole(service string) string { return service + "-relay" }

// ConsumerRole is the role that handles what a service hears.
func ConsumerRole(service string) string { return service + "-consumer" }

// Roles returns all roles.
func Roles() []string {
	roles := []string{RoleOrderAPI}
	for _, name := range serviceNames() {
		roles = append(roles, RelayRole(name), ConsumerRole(name))
	}
	return append(roles, outside.Systems()...)
}

// Config says what Run and Solo run. Dir is required; Run needs BrokerURL too.
type Config struct {
	// Dir keeps the shop: NAME.db of each service, outside/ of the outside
	// systems and, under Solo, broker/. It is made when missing.
	Dir string
	// BrokerURL is where the broker is; see package dial. Defaults to what
	// UseBroker has noted; without that Solo brings its own.
	BrokerURL string
	// Instance is a name that this process alone has and the next one in its
	// place; see dial.BrokerConfig. Defaults to none.
	Instance string
	// Dial makes the connections to Kafka and RabbitMQ. Defaults to TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Roles to run in this process. Defaults to all.
	Roles []string
	// Listen is the address of the HTTP entry. Defaults to 127.0.0.1:8080.
	Listen string
	// Ready is called with the address of the HTTP entry once it serves.
	// Defaults to nil: nothing.
	Ready func(addr string)
	// Queue is how many requests may wait for their commit; more are refused
	// with 503. Defaults to 1024.
	Queue int
	// MaxBatch is how many orders share a transaction. Defaults to 256.
	MaxBatch int
	// Rules are the business rules. Defaults to Rules{}.
	Rules Rules
	// Outside is about the outside systems. Defaults to OutsideConfig{}.
	Outside OutsideConfig
	// Relay and Consumer set up the relays and consumer groups of all
	// services. Name, Crash and Logger are set by the shop. DelayAhead of relays
	// defaults to 1 ns here, Concurrency of those who call an outside system
	// to 8, all else as it does there.
	Relay    relay.Config
	Consumer consumer.Config
	// StatsDir is where each consumer writes down what it has counted, every
	// quarter of a second, in a file of its own; see ReadStats. Defaults to
	// none.
	StatsDir string
	// Crash is called at named points by tests that kill the process there.
	// Defaults to nil: nothing.
	Crash func(point string)
	// Logger gets what a person should know. Defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" {
		return c, errors.New("run shop: no directory is given")
	}
	if len(c.Roles) == 0 {
		c.Roles = Roles()
	}
	for _, role := range c.Roles {
		if !slices.Contains(Roles(), role) {
			return c, fmt.Errorf("run shop: unknown role %q; the roles are %s", role, strings.Join(Roles(), ", "))
		}
	}
	if err := c.Outside.check(); err != nil {
		return c, fmt.Errorf("run shop: %w", err)
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:8080"
	}
	if c.Queue <= 0 {
		c.Queue = 1024
	}
	if c.MaxBatch <= 0 {
		c.MaxBatch = 256
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

func (c Config) has(roles ...string) bool {
	return slices.ContainsFunc(roles, func(r string) bool { return slices.Contains(c.Roles, r) })
}
