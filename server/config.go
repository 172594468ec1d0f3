package server

import (
	"log/slog"
	"time"
)

// BrokerEmbedded in place of a broker's URL means the server inside of this
// program; see EmbeddedConfig.
const BrokerEmbedded = "embedded"

// Config is the file that `settle serve` reads, or what an embedding program
// fills in. Only Sources is required.
type Config struct {
	Listen   string                  `yaml:"listen" doc:"HOST:PORT of GET /healthz and /readyz; empty is none" default:""`
	Embedded EmbeddedConfig          `yaml:"embedded" doc:"the JetStream server inside of this program, for sources whose broker is embedded"`
	Sources  map[string]SourceConfig `yaml:"sources" doc:"the databases whose outboxes are relayed, each under a name"`

	// Crash is called at named points of the relays; tests end the process
	// there. Defaults to nil: nothing.
	Crash func(point string) `yaml:"-"`
	// Ready is called with the address of the health checks once they are
	// answered. Defaults to nil: nothing.
	Ready func(addr string) `yaml:"-"`
	// Logger gets what a person should know. No secret of a URL reaches it.
	// Defaults to slog.Default.
	Logger *slog.Logger `yaml:"-"`
}

// EmbeddedConfig is the JetStream server inside of this program. Of several
// programs with one directory one serves it; another takes over when that ends.
type EmbeddedConfig struct {
	Dir   string `yaml:"dir" doc:"absolute path of the directory that keeps the messages, with placeholders like db's; made when it is missing" default:""`
	Port  int    `yaml:"port" doc:"port on 127.0.0.1 at which clients find it" default:"4222"`
	Token string `yaml:"token" doc:"what clients show, with placeholders like db's; empty: one is made and kept in the file token of dir" default:""`
}

// SourceConfig is one database with an outbox, and the broker of its events.
type SourceConfig struct {
	DB     string `yaml:"db" doc:"URL of the database: sqlite:///path, postgres://user:password@host:port/name?search_path=schema or mysql://user:password@host:port/name; ${NAME} in it stands for an environment variable, ${file:/path} for the text of a file" default:""`
	Broker string `yaml:"broker" doc:"URL of the broker, with placeholders like db's, or embedded" default:"embedded"`
	// Brokers and Routes are for events that go elsewhere.
	Brokers map[string]string `yaml:"brokers" doc:"more brokers, each under a name that routes know: their URLs, or embedded" default:"{}"`
	Routes  []RouteConfig     `yaml:"routes" doc:"which events go to which broker; the first that matches decides, and what none matches goes to broker"`
	Topics  []string          `yaml:"topics" doc:"topics that are made at start; any other is made when it is first used" default:"[]"`
	Groups  []string          `yaml:"groups" doc:"consumer groups whose queues are made together with each topic, before anything is published to it: RabbitMQ keeps an event only for the groups that are there when it comes; other brokers need none" default:"[]"`
	Migrate bool              `yaml:"migrate" doc:"whether to make the tables and bring them up to date; else settle migrate does, and until then nothing is relayed" default:"false"`
	// Durability is DurabilityStrict or DurabilityLax.
	Durability string `yaml:"durability" doc:"strict: a database that may lose what it has committed (fsync or synchronous_commit off and such) is not relayed; lax: it is, with a warning" default:"strict"`
	// BrokerDurability is DurabilityStrict or DurabilityLax.
	BrokerDurability string `yaml:"broker_durability" doc:"strict: nothing is relayed to a broker that may lose what it has acknowledged (one copy, or one that proves it, or a policy that drops what waits; looked at on Kafka, RabbitMQ, NATS and RocketMQ, of the source's topics); lax: it is, with a warning" default:"as durability"`
	// OtherRelay is OtherRelayWarn or OtherRelayUnready.
	OtherRelay string      `yaml:"other_relay" doc:"what follows when another relay is seen at work on an adopted table. warn: the log and /readyz say so; unready: /readyz answers 503 as well" default:"warn"`
	Relay      RelayConfig `yaml:"relay" doc:"outbox to broker"`
	// Bridges are of consumer groups that are not ours.
	Bridges map[string]BridgeConfig `yaml:"bridges" doc:"consumer groups that are not ours: their dead letters are brought into db, each group under its name"`
}

// What SourceConfig.Durability may be, where empty is strict, and
// BrokerDurability, where empty is what Durability is.
const (
	DurabilityStrict = "strict"
	DurabilityLax    = "lax"
)

// What SourceConfig.OtherRelay may be; empty is warn.
const (
	OtherRelayWarn    = "warn"
	OtherRelayUnready = "unready"
)

// RelayConfig holds what people change about a relay.
type RelayConfig struct {
	LeaseTTL       time.Duration      `yaml:"lease_ttl" doc:"how long a relay leads without renewing; another takes over after it" default:"10s"`
	BatchRows      int                `yaml:"batch_rows" doc:"events per publish, 1 to 1000" default:"500"`
	BatchBytes     int                `yaml:"batch_bytes" doc:"bytes per publish" default:"1048576"`
	MaxIdle        time.Duration      `yaml:"max_idle" doc:"longest wait between two looks at an outbox in which nothing happens" default:"25ms"`
	PublishTimeout time.Duration      `yaml:"publish_timeout" doc:"how long the broker may take for a batch" default:"5s"`
	RateLimit      map[string]float64 `yaml:"rate_limit" doc:"events per second for each topic; a topic not named has no limit" default:"{}"`
	KeepFor        time.Duration      `yaml:"keep_for" doc:"how long sent rows stay in the outbox; 0 keeps them for ever" default:"0s"`
	RetainEvery    time.Duration      `yaml:"retain_every" doc:"pause between deletions of what is older than keep_for" default:"10s"`
	SweepEvery     time.Duration      `yaml:"sweep_every" doc:"pause between searches for rows whose transaction committed late" default:"30s"`
	HoleAge        time.Duration      `yaml:"hole_age" doc:"how old a missing id must be, beside the evidence that no transaction owns it, to be looked for by the sweep alone" default:"2s"`
	HoleGrace      time.Duration      `yaml:"hole_grace" doc:"takes the place of that evidence where the database does not tell: on MySQL and MariaDB without the right PROCESS" default:"1m0s"`
	Pass           bool               `yaml:"pass" doc:"whether events go on behind a dead one of their key; else they wait for a person" default:"false"`
	Retry          RetryConfig        `yaml:"retry" doc:"when an event that the broker refused is tried again"`
}

// RetryConfig is a settle.Backoff: min(max, base·2^attempt).
type RetryConfig struct {
	Base     time.Duration `yaml:"base" doc:"unit of the wait" default:"1s"`
	Max      time.Duration `yaml:"max" doc:"longest wait" default:"5m0s"`
	Jitter   float64       `yaml:"jitter" doc:"part of the wait that is spread, 0 to 1" default:"0.2"`
	Attempts int           `yaml:"attempts" doc:"attempts before an event becomes a dead letter" default:"10"`
}
