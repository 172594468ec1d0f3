package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/server"
)

func TestABridgeThatCanNotBeNamesTheKeyAndShowsNoSecret(t *testing.T) {
	const rabbit = "rabbitmq://u:" + canary + "@h:5672"
	for name, c := range map[string]struct{ broker, bridges, says string }{
		"embedded":      {"embedded", "stock: {dead: [d]}", "sources.a.bridges.stock.broker must be given"},
		"memory":        {rabbit, "stock: {dead: [d], broker: 'memory:'}", "sources.a.bridges.stock.broker must be the URL of Kafka, RabbitMQ, RocketMQ or NATS"},
		"own":           {rabbit, "stock: {dead: [d], broker: 'nats://" + canary + "@h?no=such'}", "sources.a.bridges.stock.broker"},
		"nowhere":       {rabbit, "stock: {}", "sources.a.bridges.stock.dead must be given"},
		"empty":         {rabbit, "stock: {dead: ['']}", "sources.a.bridges.stock.dead"},
		"no topic":      {rabbit, "stock: {ladder: {steps: [1m]}}", "sources.a.bridges.stock.ladder.topic must be given"},
		"steps":         {rabbit, "stock: {ladder: {topic: t, steps: [soon]}}", "sources.a.bridges.stock.ladder.steps is soon"},
		"short":         {rabbit, "stock: {ladder: {topic: t, steps: [1us]}}", "sources.a.bridges.stock.ladder.steps"},
		"many":          {rabbit, "stock: {ladder: {topic: t, steps: [" + strings.Repeat("1s,", 17) + "]}}", "at most 16"},
		"name":          {rabbit, "'a b': {dead: [d]}", `naming "a b"`},
		"unknown":       {rabbit, "stock: {dead: [d], queue: q}", `unknown field "queue"`},
		"unset":         {rabbit, "stock: {dead: [d], broker: '${NO_SUCH_VARIABLE}'}", "sources.a.bridges.stock.broker: the environment variable"},
		"unknown inner": {rabbit, "stock: {dead: [d], ladder: {steps: [1m], stairs: 3}}", `unknown field "stairs"`},
	} {
		_, err := server.ReadConfig(write(t, "settle.yml", "embedded: {dir: /x}\nsources:\n  a:\n    db: sqlite:///a.db\n    broker: '"+c.broker+"'\n    bridges: {"+c.bridges+"}\n"))
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v; want it to say %q and no secret", name, err, c.says)
		}
	}
}

func TestWhatAFileSaysOfABridgeIsRead(t *testing.T) {
	t.Setenv("RABBIT", "p@ss")
	cfg, err := server.ReadConfig(write(t, "settle.yml", `
sources:
  a:
    db: sqlite:///a.db
    broker: kafka://h:9092
    bridges:
      stock: {ladder: {topic: t, steps: [1m, 5m]}}
      mail: {broker: "rabbitmq://u:${RABBIT}@h:5672", dead: [mail.dlq], retry: mail, ladder: {topic: x, queue: mail}}
`))
	if err != nil {
		t.Fatal(err)
	}
	b := cfg.Sources["a"].Bridges
	if got := b["stock"].Ladder; got.Topic != "t" || len(got.Steps) != 2 || got.Steps[1] != 5*time.Minute {
		t.Errorf("the ladder is %+v", got)
	}
	if got := b["mail"]; got.Broker != "rabbitmq://u:p%40ss@h:5672" || got.Retry != "mail" || got.Dead[0] != "mail.dlq" || got.Ladder.Queue != "mail" {
		t.Errorf("the bridge is %+v", got)
	}
	if hidden := cfg.Hide("p@ss p%40ss"); strings.Contains(hidden, "ss") {
		t.Errorf("shown is %q", hidden)
	}
}
