package server_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/internal/configfile"
	"github.com/settlemq/settle/server"
)

const canary = "c4n4ry"

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAFileThatCanNotBeNamesTheKeyAndShowsNoSecret(t *testing.T) {
	t.Setenv("CANARY", canary)
	empty := write(t, "empty", "\n")
	db := "db: sqlite:///a.db"
	for name, c := range map[string]struct{ text, says string }{
		"nothing":            {"", "sources must be given"},
		"unknown key":        {"sources:\n  a: {" + db + ", relayy: 3}\n", `[2:`},
		"right keys":         {"sources:\n  a: {" + db + ", relayy: 3}\n", "sources.NAME.relay.lease_ttl"},
		"unknown relay key":  {"sources:\n  a:\n    db: nats://" + canary + "@h:1\n    relay: {lease: 3s}\n", `[4:13] unknown field "lease"`},
		"wrong type":         {"sources:\n  a:\n    db: sqlite:///a.db\n    relay: {batch_rows: " + canary + "}\n", "[4:"},
		"wrong duration":     {"sources:\n  a:\n    db: sqlite:///a.db\n    relay: {lease_ttl: soon}\n", "lease_ttl"},
		"torn YAML":          {"sources:\n  a:\n    db: \"nats://" + canary + "\n", "[3:9]"},
		"twice":              {"sources:\n  a:\n    " + db + "\n  a:\n    db: nats://" + canary + "@h:1\n", "[4:3]"},
		"same db":            {"embedded: {dir: /x}\nsources: {a: {" + db + "}, b: {" + db + "}}\n", "sources.b.db must be another one than that of sources.a"},
		"no db":              {"sources: {a: {}}\n", "sources.a.db must be given"},
		"wrong db":           {"sources: {a: {db: 'oracle://u:" + canary + "@h/x'}}\n", `unknown scheme "oracle"`},
		"db not a URL":       {"sources: {a: {db: '${CANARY}'}}\n", "sources.a.db must be a database's URL: there is no scheme in it"},
		"wrong broker":       {"sources: {a: {" + db + ", broker: 'nats://" + canary + "@h'}}\n", `"h" is not host:port`},
		"Kafka's option":     {"sources: {a: {" + db + ", broker: 'kafka://u:" + canary + "@h:9092?acks=1'}}\n", `there is no option "acks"; there are tls, tls_ca, tls_name, sasl`},
		"Kafka's topic":      {"sources: {a: {" + db + ", broker: 'kafka://u:" + canary + "@h:9092,i:9092/orders'}}\n", "topics are not part of the URL"},
		"Kafka's port":       {"sources: {a: {" + db + ", broker: 'kafka://u:" + canary + "@h:9092,i'}}\n", `"i" is not host:port`},
		"unknown broker":     {"embedded: {dir: /x}\nsources: {a: {" + db + ", brokers: {b: embedded}, routes: [{to: b}, {topic: x, to: c}]}}\n", "sources.a.routes[1].to is c; it must be one of brokers, or default"},
		"broker's name":      {"embedded: {dir: /x}\nsources: {a: {" + db + ", brokers: {default: embedded}}}\n", `sources.a.brokers is naming "default"`},
		"second broker":      {"embedded: {dir: /x}\nsources: {a: {" + db + ", brokers: {b: 'nats://" + canary + "@h'}}}\n", "sources.a.brokers.b must be embedded, or a broker's URL: broker URL: "},
		"unset in brokers":   {"embedded: {dir: /x}\nsources: {a: {" + db + ", brokers: {b: '${NO_SUCH_VARIABLE}'}}}\n", `sources.a.brokers.b: the environment variable "NO_SUCH_VARIABLE"`},
		"no second broker":   {"embedded: {dir: /x}\nsources: {a: {" + db + ", brokers: {b: ''}}}\n", "sources.a.brokers.b must be given"},
		"unknown of several": {"embedded: {dir: /x}\nsources: {a: {" + db + ", brokers: {b: embedded}, routes: [{to: [default, c]}]}}\n", "sources.a.routes[0].to is c; it must be one of brokers, or default"},
		"broker twice":       {"embedded: {dir: /x}\nsources: {a: {" + db + ", brokers: {b: embedded}, routes: [{to: [b, default, b]}]}}\n", "sources.a.routes[0].to is b twice; it must be each broker once"},
		"topic of a route":   {"embedded: {dir: /x}\nsources: {a: {" + db + ", routes: [{as: 'a@b'}]}}\n", "sources.a.routes[0].as is a@b"},
		"unknown route key":  {"embedded: {dir: /x}\nsources: {a: {" + db + ", routes: [{type: x}]}}\n", "sources.NAME.routes[].event_type"},
		"memory":             {"sources: {a: {" + db + ", broker: 'memory:'}}\n", "sources.a.broker is memory:"},
		"no directory":       {"sources: {a: {" + db + "}}\n", "embedded.dir must be given"},
		"relative":           {"embedded: {dir: x}\nsources: {a: {" + db + "}}\n", "embedded.dir is x; it must be an absolute path"},
		"port":               {"embedded: {dir: /x, port: 70000}\nsources: {a: {" + db + "}}\n", "embedded.port is 70000"},
		"token":              {"embedded: {dir: /x, token: '" + canary + "@'}\nsources: {a: {" + db + "}}\n", "embedded.token must be"},
		"listen":             {"listen: 8081\nembedded: {dir: /x}\nsources: {a: {" + db + "}}\n", "listen is 8081"},
		"name":               {"sources: {'a:b': {" + db + "}}\n", `naming "a:b"`},
		"groups":             {"embedded: {dir: /x}\nsources: {a: {" + db + ", groups: ['']}}\n", "sources.a.groups"},
		"topics":             {"embedded: {dir: /x}\nsources: {a: {" + db + ", topics: ['']}}\n", "sources.a.topics"},
		"batch":              {"embedded: {dir: /x}\nsources: {a: {" + db + ", relay: {batch_rows: 5000}}}\n", "sources.a.relay.batch_rows is 5000; it must be 1 to 1000"},
		"rate":               {"embedded: {dir: /x}\nsources: {a: {" + db + ", relay: {rate_limit: {t: -1}}}}\n", "sources.a.relay.rate_limit.t is -1"},
		"jitter":             {"embedded: {dir: /x}\nsources: {a: {" + db + ", relay: {retry: {jitter: 2}}}}\n", "sources.a.relay.retry.jitter is 2"},
		"durability":         {"embedded: {dir: /x}\nsources: {a: {" + db + ", durability: some}}\n", "sources.a.durability is some; it must be strict or lax"},
		"unset variable":     {"sources: {a: {db: '${NO_SUCH_VARIABLE}'}}\n", `sources.a.db: the environment variable "NO_SUCH_VARIABLE" is not set`},
		"unreadable file":    {"sources: {a: {" + db + ", broker: 'nats://${file:/no/such}@h:1'}}\n", "sources.a.broker: read secret: open /no/such"},
		"empty file":         {"sources: {a: {db: 'file:" + empty + "'}}\n", "is empty"},
		"secret in a wrong":  {"sources: {a: {" + db + ", broker: 'nats://${CANARY}@h:port'}}\n", "sources.a.broker"},
	} {
		_, err := server.ReadConfig(write(t, "settle.yml", c.text))
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v; want it to say %q and no secret", name, err, c.says)
		}
	}
	if _, err := server.ReadConfig("/no/such/settle.yml"); err == nil || !strings.Contains(err.Error(), "/no/such/settle.yml") {
		t.Errorf("a file that is missing: %v", err)
	}
}

func TestPlaceholdersStandForAPartOfAURLOrForAllOfIt(t *testing.T) {
	t.Setenv("TOKEN", "p@ss/w:rd 1")
	t.Setenv("WHOLE", "nats://tok@h:1")
	t.Setenv("HOST", "db.internal:5432")
	t.Setenv("DIR", "/var/a b#1")
	secret := write(t, "secret", "s3cret\n")
	whole := write(t, "url", "sqlite:///b.db\n")
	cfg, err := server.ReadConfig(write(t, "settle.yml", "embedded: {dir: '${DIR}/broker', token: '${file:"+secret+"}'}\nsources:\n"+
		"  a: {db: 'sqlite:///a.db', broker: 'nats://${TOKEN}@h:1'}\n  b: {db: 'file:"+whole+"', broker: '${WHOLE}'}\n  c: {db: 'sqlite://${DIR}/c.db'}\n"+
		"  d: {db: 'postgres://${TOKEN}:${file:"+secret+"}@${HOST}/x?sslpassword=${TOKEN}'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		cfg.Sources["a"].Broker: "nats://p%40ss%2Fw%3Ard%201@h:1",
		cfg.Sources["b"].Broker: "nats://tok@h:1",
		cfg.Sources["b"].DB:     "sqlite:///b.db",
		cfg.Embedded.Token:      "s3cret",
		cfg.Embedded.Dir:        "/var/a b#1/broker",
		cfg.Sources["c"].DB:     "sqlite:///var/a%20b%231/c.db",
		cfg.Sources["d"].DB:     "postgres://p%40ss%2Fw%3Ard%201:s3cret@db.internal:5432/x?sslpassword=p%40ss%2Fw%3Ard%201",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTheExampleIsRead(t *testing.T) {
	t.Setenv("SETTLE_NATS_TOKEN", "x")
	b, err := os.ReadFile("../docs/settle.example.yml")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PAYMENT_DB_PASSWORD", "z/@")
	t.Setenv("KAFKA_PASSWORD", "p@ss")
	t.Setenv("RABBITMQ_PASSWORD", "p@ss")
	// Only root could make the secrets where the example has them.
	text := string(b)
	for _, name := range []string{"nats-token", "audit-db"} {
		text = strings.ReplaceAll(text, "/run/secrets/"+name, write(t, name, "y\n"))
	}
	cfg, err := server.ReadConfig(write(t, "settle.yml", text))
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Sources) != 5 || !strings.HasPrefix(cfg.Sources["stock"].Broker, "amqps://settle:p%40ss@r1.internal:5671,r2") || !strings.HasPrefix(cfg.Sources["ledger"].Broker, "kafka://settle:p%40ss@k1.internal:9093,k2") || cfg.Sources["payment"].Relay.KeepFor != 168*time.Hour || cfg.Sources["audit"].Broker != "nats://y@nats.internal:4222" ||
		cfg.Sources["payment"].DB != "postgres://payment:z%2F%40@db.internal:5432/shop?search_path=payment" || cfg.Sources["audit"].DB != "mysql://audit:y@db2.internal:3306/audit" {
		t.Errorf("the example says %+v", cfg)
	}
}

func TestEveryKeyIsDocumentedWithItsDefault(t *testing.T) {
	for _, f := range configfile.Fields(server.Config{}) {
		if f.Doc == "" {
			t.Errorf("%s has no doc", f.Key)
		}
		if f.Type != configfile.Section && f.Default == "" && !map[string]bool{"listen": true, "embedded.dir": true, "embedded.token": true, "sources.NAME.db": true}[f.Key] {
			t.Errorf("%s has no default", f.Key)
		}
	}
}

func TestWhatAFileSaysReachesTheRelay(t *testing.T) {
	cfg, err := server.ReadConfig(write(t, "settle.yml", `
embedded: {dir: /x}
sources:
  a:
    db: sqlite:///a.db
    relay: {lease_ttl: 3s, batch_rows: 7, batch_bytes: 9, max_idle: 1ms, publish_timeout: 2s, rate_limit: {t: 5}, keep_for: 1h, retain_every: 4s, sweep_every: 6s,
      hole_age: 8s, hole_grace: 10s, pass: true, retry: {base: 1ms, max: 2ms, jitter: 0.5, attempts: 3}}
`))
	if err != nil {
		t.Fatal(err)
	}
	got := cfg.Sources["a"].Relay.Relay()
	if got.LeaseTTL != 3*time.Second || got.BatchRows != 7 || got.BatchBytes != 9 || got.MaxIdle != time.Millisecond || got.PublishTimeout != 2*time.Second ||
		got.RateLimit["t"] != 5 || got.KeepFor != time.Hour || got.RetainEvery != 4*time.Second || got.SweepEvery != 6*time.Second ||
		got.HoleAge != 8*time.Second || got.HoleGrace != 10*time.Second || !got.Pass {
		t.Errorf("the relay gets %+v", got)
	}
	if want := (settle.Backoff{Base: time.Millisecond, Max: 2 * time.Millisecond, Jitter: 0.5, Attempts: 3}); !reflect.DeepEqual(got.Retry, want) {
		t.Errorf("retries are %+v", got.Retry)
	}
}

func TestTheDoctorOfABrokerLooksAtTheTopicsAndGroupsThatTheSourceNames(t *testing.T) {
	c := server.SourceConfig{Topics: []string{"order"}, Groups: []string{"stock"}, Relay: server.RelayConfig{KeepFor: time.Hour}}
	if of := c.BrokerDoctor(""); !slices.Equal(of.Topics, c.Topics) || !slices.Equal(of.Groups, c.Groups) || of.KeepFor != time.Hour {
		t.Errorf("it looks at %+v", of)
	}
	if of := (server.SourceConfig{}).BrokerDoctor(""); !slices.Equal(of.Topics, []string{settle.DefaultTopic}) {
		t.Errorf("of a source that names no topic it looks at %+v", of)
	}
}
