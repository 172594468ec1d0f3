package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

// Config is the file that `settle shop --config` reads. Its zero value is
// what runs without a file.
type Config struct {
	Listen   string         `yaml:"listen" doc:"address of the HTTP entry; loopback unless you mean otherwise" default:"127.0.0.1:8080"`
	Relay    RelayConfig    `yaml:"relay" doc:"outbox to broker"`
	Consumer ConsumerConfig `yaml:"consumer" doc:"broker to handler"`
	Shop     ShopConfig     `yaml:"shop" doc:"the shop's business rules; amounts are text such as 500.00"`
	Outside  OutsideConfig  `yaml:"outside" doc:"the payment provider, the coupon system and the carrier, and those who call them"`
}

// RelayConfig holds what people change about the relays.
type RelayConfig struct {
	LeaseTTL  time.Duration      `yaml:"lease_ttl" doc:"how long a relay leads without renewing; another takes over after it" default:"10s"`
	BatchRows int                `yaml:"batch_rows" doc:"events per publish, 1 to 1000" default:"500"`
	RateLimit map[string]float64 `yaml:"rate_limit" doc:"events per second for each topic; a topic not named has no limit" default:"{}"`
	KeepFor   time.Duration      `yaml:"keep_for" doc:"how long sent rows stay in the outbox; 0 keeps them for ever" default:"0s"`
	Retry     RetryConfig        `yaml:"retry" doc:"when an event that the broker refused is tried again"`
}

// ConsumerConfig holds what people change about the consumer groups.
type ConsumerConfig struct {
	LeaseTTL  time.Duration `yaml:"lease_ttl" doc:"how long a member owns a partition without renewing" default:"2s"`
	BatchRows int           `yaml:"batch_rows" doc:"events per transaction" default:"256"`
	RateLimit float64       `yaml:"rate_limit" doc:"events per second of each group; 0 is no limit" default:"0"`
	Retry     RetryConfig   `yaml:"retry" doc:"when a failed event is tried again"`
	Breaker   BreakerConfig `yaml:"breaker" doc:"when the delivery of an event type pauses; no attempts are counted meanwhile"`
}

// RetryConfig is a settle.Backoff: min(max, base·2^attempt).
type RetryConfig struct {
	Base     time.Duration `yaml:"base" doc:"unit of the wait" default:"1s"`
	Max      time.Duration `yaml:"max" doc:"longest wait" default:"5m0s"`
	Jitter   float64       `yaml:"jitter" doc:"part of the wait that is spread, 0 to 1" default:"0.2"`
	Attempts int           `yaml:"attempts" doc:"attempts before an event becomes a dead letter" default:"10"`
}

// readConfig reads a file strictly: an unknown key is an error that names the
// line, the wrong word and the right ones.
func readConfig(path string) (Config, error) {
	var c Config
	b, err := os.ReadFile(path)
	if err != nil {
		return c, usagef("read config: %v", err)
	}
	err = yaml.NewDecoder(bytes.NewReader(b), yaml.Strict()).Decode(&c)
	if err != nil && !errors.Is(err, io.EOF) {
		var unknown *yaml.UnknownFieldError
		if errors.As(err, &unknown) {
			return c, usagef("config %s: %s\nthe keys are: %s", path, strings.TrimSpace(yaml.FormatError(err, false, true)), strings.Join(configKeys(), ", "))
		}
		return c, usagef("config %s: %s", path, strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	return c, c.validate(path)
}

func (c Config) validate(path string) error {
	wrong := func(key string, got any, want string) error {
		return usagef("config %s: %s is %v; it must be %s", path, key, got, want)
	}
	switch r, k := c.Relay, c.Consumer; {
	case r.BatchRows < 0 || r.BatchRows > 1000:
		return wrong("relay.batch_rows", r.BatchRows, "1 to 1000")
	case k.BatchRows < 0 || k.BatchRows > 10_000:
		return wrong("consumer.batch_rows", k.BatchRows, "1 to 10000")
	case r.LeaseTTL < 0 || k.LeaseTTL < 0:
		return wrong("lease_ttl", min(r.LeaseTTL, k.LeaseTTL), "positive")
	case r.KeepFor < 0:
		return wrong("relay.keep_for", r.KeepFor, "0 or more")
	case k.RateLimit < 0:
		return wrong("consumer.rate_limit", k.RateLimit, "0 or more")
	}
	for topic, limit := range c.Relay.RateLimit {
		if limit <= 0 {
			return wrong("relay.rate_limit."+topic, limit, "more than 0")
		}
	}
	for name, r := range map[string]RetryConfig{"relay.retry": c.Relay.Retry, "consumer.retry": c.Consumer.Retry} {
		if r.Base < 0 || r.Max < 0 || r.Jitter < 0 || r.Jitter > 1 || r.Attempts < 0 {
			return wrong(name, fmt.Sprintf("%+v", r), "made of numbers that are not negative, jitter at most 1")
		}
	}
	for _, w := range []*wrongValue{c.Consumer.Breaker.wrong(), c.Shop.wrong(), c.Outside.wrong()} {
		if w != nil {
			return wrong(w.key, w.got, w.want)
		}
	}
	return nil
}

// configField is one key of the file, as its struct tags document it.
type configField struct {
	Key     string `json:"key"`
	Type    string `json:"type"`
	Default string `json:"default,omitempty"`
	Doc     string `json:"doc"`
}

func configFields(t reflect.Type, prefix string) []configField {
	var fields []configField
	for i := range t.NumField() {
		f := t.Field(i)
		key := prefix + f.Tag.Get("yaml")
		if f.Type.Kind() == reflect.Struct {
			fields = append(fields, configField{Key: key, Type: "section", Doc: f.Tag.Get("doc")})
			fields = append(fields, configFields(f.Type, key+".")...)
			continue
		}
		fields = append(fields, configField{Key: key, Type: configType(f.Type), Default: f.Tag.Get("default"), Doc: f.Tag.Get("doc")})
	}
	return fields
}

func configType(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t.Kind() == reflect.Slice:
		return "list of texts"
	case t.Kind() == reflect.Map:
		return "map of names to numbers"
	case t.Kind() == reflect.Float64:
		return "number"
	case t.Kind() == reflect.Int:
		return "integer"
	}
	return "text"
}

func configKeys() []string {
	var keys []string
	for _, f := range configFields(reflect.TypeFor[Config](), "") {
		if f.Type != "section" {
			keys = append(keys, f.Key)
		}
	}
	return keys
}

func (a *app) configCommand() *cobra.Command {
	return group("config", "Check a config file, or print what one may say", a.configCheckCommand(), a.configSchemaCommand())
}

func (a *app) configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Read a config file as strictly as the program does",
		Args:  exactly(1, "one file"),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := readConfig(args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(a.Out, "%s is in order\n", args[0])
			return err
		},
	}
}

func (a *app) configSchemaCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "schema",
		Short: "Print every key with its type, default and meaning",
		Args:  exactly(0, ""),
		RunE: func(*cobra.Command, []string) error {
			fields := configFields(reflect.TypeFor[Config](), "")
			if asJSON {
				return printJSON(a.Out, fields)
			}
			for _, f := range fields {
				line := fmt.Sprintf("%-30s %-24s %s", f.Key, f.Type, f.Doc)
				if f.Type != "section" {
					line += " (default " + f.Default + ")"
				}
				if _, err := fmt.Fprintln(a.Out, line); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return c
}
