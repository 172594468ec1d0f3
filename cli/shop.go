package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/examples/shop"
)

// shopFile is the config file that a shop's directory may bring along: a demo
// leaves the times it ran with, and whoever goes on with its shop keeps them.
const shopFile = "settle.yml"

func (a *app) shopCommand() *cobra.Command {
	var dir, listen, config string
	var db shopDatabase
	var broker shopBroker
	c := group("shop", "Run the reference shop in one process, embedded broker included", a.shopStockCommand(), a.shopOutsideCommand())
	c.Long = "Shop runs its six services, their relays and consumers, the payment provider, the coupon system and the\n" +
		"carrier that they call, and a JetStream server unless --broker names a cluster, all in one process. It goes on\n" +
		"where the last one in the directory was killed, and ends on SIGTERM or Ctrl-C."
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unknown word %q; write settle shop --dir DIR, settle shop stock SKU=QUANTITY, or settle shop outside SYSTEM=MODE", args[0])
		}
		if dir == "" {
			return usagef("settle shop needs --dir: where its databases and the broker's files are, or are to be")
		}
		var file Config
		if _, err := os.Stat(filepath.Join(dir, shopFile)); config == "" && err == nil {
			config = filepath.Join(dir, shopFile)
		}
		if config != "" {
			var err error
			if file, err = readConfig(config); err != nil {
				return err
			}
		}
		if listen == "" {
			listen = file.Listen
		}
		if listen != "" {
			_, port, err := net.SplitHostPort(listen)
			if err != nil {
				return usagef("--listen %q is not HOST:PORT", listen)
			}
			if _, err := net.LookupPort("tcp", port); err != nil {
				return usagef("--listen %q is not HOST:PORT: there is no port %q", listen, port)
			}
		}
		if err := errors.Join(broker.check(), db.check()); err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return usagef("--dir %s: %w", dir, err)
		}
		if err := broker.use(c.Context(), dir); err != nil {
			return err
		}
		if err := db.use(c.Context(), dir); err != nil {
			return err
		}
		return a.runShop(c.Context(), dir, listen, file)
	}
	c.Flags().StringVar(&dir, "dir", "", "where the shop's databases and the broker's files are, or are to be")
	c.Flags().StringVar(&db.text, "db", "", databaseUsage)
	c.Flags().StringVar(&broker.text, "broker", "", brokerUsage)
	c.Flags().StringVar(&listen, "listen", "", "address of the HTTP entry (default 127.0.0.1:8080)")
	c.Flags().StringVar(&config, "config", "", "config file; see settle config schema (default: "+shopFile+" in --dir, if there is one)")
	return c
}

func (a *app) runShop(ctx context.Context, dir, listen string, file Config) error {
	cfg := shop.Config{
		Dir: dir, Listen: listen, Crash: a.Crash,
		Relay:    file.Relay.Relay(),
		Consumer: consumerConfig(file.Consumer),
		Rules:    file.Shop.rules(),
		Outside:  file.Outside.config(nil),
		Logger:   slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Ready: func(addr string) {
			_, _ = fmt.Fprintf(a.Err, "the shop is open: http://%s/orders (POST, GET /orders/ID); Ctrl-C ends it\n", addr)
		},
	}
	watching, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.watchShop(watching, dir)
	}()
	err := shop.Solo(ctx, cfg)
	stop()
	<-ended
	switch {
	case errors.Is(err, shop.ErrInUse):
		return unreachablef("%s is in use by another shop; end that one, or name another directory", dir)
	case errors.Is(err, syscall.EADDRINUSE):
		return unreachablef("%w; end the program that listens there, or choose another address with --listen", err)
	case err != nil:
		return unreachablef("%w", err)
	}
	return nil
}

func (a *app) shopStockCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "stock SKU=QUANTITY …",
		Short: "Raise what ever came in of articles; a shop may be running",
		Long: "Stock makes articles known to the inventory and raises what ever came in of each to QUANTITY. It may be\n" +
			"repeated: an article that has come in already is left as it is. All are raised, or none.",
		RunE: func(c *cobra.Command, words []string) error {
			if len(words) == 0 {
				return usagef("settle shop stock takes articles, for instance stock sku-7=100")
			}
			var levels []shop.Level
			for _, w := range words {
				sku, number, ok := strings.Cut(w, "=")
				quantity, err := strconv.ParseInt(number, 10, 64)
				if !ok || sku == "" || err != nil || quantity < 0 {
					return usagef("%q is not SKU=QUANTITY with a quantity of 0 or more", w)
				}
				levels = append(levels, shop.Level{SKU: sku, Quantity: quantity})
			}
			// Looked at first: it would be made where there is none.
			_, done, err := (&sources{dir: dir}).open(c.Context())
			if err != nil {
				return err
			}
			done()
			if err := shop.Stock(c.Context(), dir, levels...); err != nil {
				return unreachablef("%w", err)
			}
			_, err = fmt.Fprintf(a.Out, "%s stocked\n", count(len(levels), "article", "articles"))
			return err
		},
	}
	c.Flags().StringVar(&dir, "dir", ".", "directory of the shop")
	return c
}

func consumerConfig(c ConsumerConfig) consumer.Config {
	return consumer.Config{LeaseTTL: c.LeaseTTL, BatchRows: c.BatchRows, RateLimit: c.RateLimit, Retry: c.Retry.Policy(), Breaker: c.Breaker.breaker()}
}
