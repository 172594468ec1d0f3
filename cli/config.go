package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/internal/configfile"
	"github.com/settlemq/settle/server"
)

// Config is the file that `settle shop --config` reads. Its zero value is
// what runs without a file.
type Config struct {
	Listen   string             `yaml:"listen" doc:"address of the HTTP entry; loopback unless you mean otherwise" default:"127.0.0.1:8080"`
	Relay    server.RelayConfig `yaml:"relay" doc:"outbox to broker"`
	Consumer ConsumerConfig     `yaml:"consumer" doc:"broker to handler"`
	Shop     ShopConfig         `yaml:"shop" doc:"the shop's business rules; amounts are text such as 500.00"`
	Outside  OutsideConfig      `yaml:"outside" doc:"the payment provider, the coupon system and the carrier, and those who call them"`
}

// ConsumerConfig holds what people change about the consumer groups.
type ConsumerConfig struct {
	LeaseTTL  time.Duration      `yaml:"lease_ttl" doc:"how long a member owns a partition without renewing" default:"2s"`
	BatchRows int                `yaml:"batch_rows" doc:"events per transaction" default:"256"`
	RateLimit float64            `yaml:"rate_limit" doc:"events per second of each group; 0 is no limit" default:"0"`
	Retry     server.RetryConfig `yaml:"retry" doc:"when a failed event is tried again"`
	Breaker   BreakerConfig      `yaml:"breaker" doc:"when the delivery of an event type pauses; no attempts are counted meanwhile"`
}

// readConfig reads a shop's file strictly: an unknown key is an error that
// names the line, the wrong word and the right ones.
func readConfig(path string) (Config, error) {
	var c Config
	if err := configfile.Read(path, &c); err != nil {
		return c, usagef("%w", err)
	}
	return c, c.validate(path)
}

func (c Config) validate(path string) error {
	if w := c.wrong(); w != nil {
		return usagef("config %s: %w", path, w)
	}
	return nil
}

func (c Config) wrong() *configfile.Wrong {
	if w := c.Relay.Wrong(); w != nil {
		return w.Under("relay")
	}
	if w := c.Consumer.wrong(); w != nil {
		return w.Under("consumer")
	}
	if w := c.Shop.wrong(); w != nil {
		return w.Under("shop")
	}
	return c.Outside.wrong().Under("outside")
}

func (c ConsumerConfig) wrong() *configfile.Wrong {
	switch {
	case c.BatchRows < 0 || c.BatchRows > 10_000:
		return &configfile.Wrong{Key: "batch_rows", Got: c.BatchRows, Want: "1 to 10000"}
	case c.LeaseTTL < 0:
		return &configfile.Wrong{Key: "lease_ttl", Got: c.LeaseTTL, Want: "positive"}
	case c.RateLimit < 0:
		return &configfile.Wrong{Key: "rate_limit", Got: c.RateLimit, Want: "0 or more"}
	}
	if w := c.Retry.Wrong(); w != nil {
		return w.Under("retry")
	}
	return c.Breaker.wrong().Under("breaker")
}

// topics of `config schema`: whose file is described.
const (
	fileOfServe = "serve"
	fileOfShop  = "shop"
)

func (a *app) configCommand() *cobra.Command {
	return group("config", "Check a config file, or print what one may say", a.configCheckCommand(), a.configSchemaCommand())
}

func (a *app) configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Read a config file as strictly as the program does",
		Long: "Check reads a file of settle serve, which has sources, or else one of settle shop, and looks at every value.\n" +
			"It asks no database and no broker; settle serve -c FILE --check does.",
		Args: exactly(1, "one file"),
		RunE: func(_ *cobra.Command, args []string) error {
			read := func(path string) error { _, err := readConfig(path); return err }
			if configfile.Has(args[0], "sources") {
				read = func(path string) error { _, err := readServeConfig(path); return err }
			}
			if err := read(args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(a.Out, "%s is in order\n", args[0])
			return err
		},
	}
}

// fileField is a key, and whose file it stands in.
type fileField struct {
	File string `json:"file"`
	configfile.Field
}

func (a *app) configSchemaCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "schema [serve|shop]",
		Short: "Print every key with its type, default and meaning",
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, words []string) error {
			files := map[string]any{fileOfServe: server.Config{}, fileOfShop: Config{}}
			if len(words) == 0 {
				words = []string{fileOfServe, fileOfShop}
			}
			fields := []fileField{}
			for _, word := range words {
				of, ok := files[word]
				if !ok {
					return usagef("unknown file %q; say serve or shop, or nothing for both", word)
				}
				for _, f := range configfile.Fields(of) {
					fields = append(fields, fileField{word, f})
				}
			}
			if asJSON {
				return printJSON(a.Out, fields)
			}
			return printSchema(a.Out, fields)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return c
}

func printSchema(w io.Writer, fields []fileField) error {
	titles := map[string]string{fileOfServe: "the file of settle serve -c", fileOfShop: "the file of settle shop --config"}
	last := ""
	for _, f := range fields {
		if f.File != last {
			if _, err := fmt.Fprintf(w, "# %s\n", titles[f.File]); err != nil {
				return err
			}
			last = f.File
		}
		line := fmt.Sprintf("%-36s %-24s %s", f.Key, f.Type, f.Doc)
		if f.Default != "" {
			line += " (default " + f.Default + ")"
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
