package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/examples/shop"
	"github.com/settlemq/settle/examples/shop/outside"
)

// roleBroker is the role of the broker's process, beside those of the shop.
const roleBroker = "broker"

// envBroker names the broker's URL to a role: its token must not stand in the
// process list. envProxy is the address of the proxy on the way to a broker that
// has several.
const (
	envBroker = "SETTLE_BROKER_URL"
	envProxy  = "SETTLE_BROKER_PROXY"
)

// roleCommand runs one process of a drill. It ends with its parent.
func (a *app) roleCommand() *cobra.Command {
	var dir, listen, instance string
	var at []string
	c := &cobra.Command{
		Use:   "role NAME[,NAME …]",
		Short: "Run one process of the demo's shop",
		Long: "Role runs one or several roles of a shop in one process. Where an outside system is called, or listens,\n" +
			"is what --outside says, or else the port that it found free and wrote into DIR/outside/NAME.addr.",
		Hidden: true,
		Args:   exactly(1, "one role, or several with commas between"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, unfollow := drill.FollowParent(c.Context(), a.In)
			defer unfollow()
			log := slog.New(slog.NewTextHandler(a.Err, nil))
			if args[0] == roleBroker {
				return serveBroker(ctx, dir, log)
			}
			roles := strings.Split(args[0], ",")
			for _, role := range roles {
				if !slices.Contains(shop.Roles(), role) {
					return usagef("unknown role %q; the roles are %s, which runs alone, %s", role, roleBroker, strings.Join(shop.Roles(), ", "))
				}
			}
			addresses, err := outsideAddresses(at)
			if err != nil {
				return err
			}
			file, err := readConfig(filepath.Join(dir, shopFile))
			if err != nil {
				return err
			}
			consume := consumerConfig(file.Consumer)
			consume.RetryPoll = 200 * time.Millisecond // how soon a replay is seen
			err = shop.Run(ctx, shop.Config{
				Dir: dir, Roles: roles, BrokerURL: os.Getenv(envBroker), Instance: instance, Dial: dialBroker(), Listen: listen, StatsDir: statsDir(dir), Crash: a.Crash, Logger: log,
				Relay: file.Relay.Relay(), Consumer: consume, Rules: file.Shop.rules(), Outside: file.Outside.config(addresses),
			})
			if err != nil {
				return unreachablef("%w", err)
			}
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", ".", "the shop's directory")
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address of the order entry")
	c.Flags().StringVar(&instance, "instance", "", "name to the broker that this process alone has, and the next one in its place")
	c.Flags().StringArrayVar(&at, "outside", nil, "address of an outside system as NAME=HOST:PORT; may be repeated")
	return c
}

// dialBroker goes through the proxy, if there is one.
func dialBroker() func(ctx context.Context, network, addr string) (net.Conn, error) {
	proxy := os.Getenv(envProxy)
	if proxy == "" {
		return nil
	}
	return drill.DialThrough(proxy)
}

// outsideAddresses reads NAME=HOST:PORT of outside systems.
func outsideAddresses(words []string) (map[string]string, error) {
	at := map[string]string{}
	for _, w := range words {
		system, addr, ok := strings.Cut(w, "=")
		if err := outside.CheckSystem(system); err != nil {
			return nil, usagef("--outside: %w", err)
		}
		if _, _, err := net.SplitHostPort(addr); !ok || err != nil {
			return nil, usagef("--outside %q is not NAME=HOST:PORT", w)
		}
		at[system] = addr
	}
	return at, nil
}

// serveBroker serves the broker's files at the port and with the token of the
// URL that the other roles are given.
func serveBroker(ctx context.Context, dir string, log *slog.Logger) error {
	at, err := parseBrokerURL(os.Getenv(envBroker))
	if err != nil {
		return err
	}
	err = dial.ServeBroker(ctx, dial.ServerConfig{Dir: filepath.Join(dir, "broker"), Port: at.port, Token: at.token, Logger: log})
	if err != nil && !errors.Is(err, context.Canceled) {
		return unreachablef("%w", err)
	}
	return nil
}

// brokerAt is where a drill's broker listens.
type brokerAt struct {
	token string
	port  int
}

func (b brokerAt) addr() string { return fmt.Sprintf("127.0.0.1:%d", b.port) }

// url is how to reach the broker through addr.
func (b brokerAt) url(addr string) string { return "nats://" + b.token + "@" + addr }

func parseBrokerURL(text string) (brokerAt, error) {
	var b brokerAt
	rest, ok := strings.CutPrefix(text, "nats://")
	token, addr, found := strings.Cut(rest, "@")
	_, err := fmt.Sscanf(addr, "127.0.0.1:%d", &b.port)
	if !ok || !found || err != nil {
		return b, usagef("%s is not nats://TOKEN@127.0.0.1:PORT", envBroker)
	}
	b.token = token
	return b, nil
}

func statsDir(dir string) string { return filepath.Join(dir, "stats") }
