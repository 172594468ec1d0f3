package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/server"
)

func TestABrokerThatIsDownHoldsItsOwnEventsOnly(t *testing.T) {
	at, db := database(t)
	here, there := port(t), port(t)
	broker(t, t.TempDir(), "tok", here)
	s, log, stop := start(t, server.Config{Sources: map[string]server.SourceConfig{"order": {
		DB: at, Broker: fmt.Sprintf("nats://tok@127.0.0.1:%d", here), Relay: server.RelayConfig{LeaseTTL: time.Second, PublishTimeout: time.Second},
		Brokers: map[string]string{"archive": fmt.Sprintf("nats://%s@127.0.0.1:%d", canary, there)},
		Routes:  []server.RouteConfig{{EventType: "y", To: "archive"}},
	}}})
	exec(t, db, `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES ('a-1', 'y', 'k', '{}')`)
	insert(t, db, "e-1")
	h := await(t, s, log, "sending", func(h server.Health) bool {
		return h.Sources["order"].Published == 1 && is("order", server.StateUnreachable, "broker")(h)
	})
	if cause := h.Sources["order"].Cause; !strings.Contains(cause, "broker archive: ") {
		t.Errorf("the broker that is down is not named: %s", cause)
	}
	endThere := broker(t, t.TempDir(), canary, there)
	await(t, s, log, "level", func(h server.Health) bool { return h.Sources["order"].Published == 2 && h.Ready })
	endThere()
	h = await(t, s, log, "told", is("order", server.StateUnreachable, "broker"))
	insert(t, db, "e-2")
	await(t, s, log, "sending again", func(h server.Health) bool { return h.Sources["order"].Published == 3 })
	stop()
	if strings.Contains(log.String()+fmt.Sprint(h), canary) {
		t.Errorf("the token is shown:\n%s\n%+v", log, h)
	}
}

func TestEveryBrokerOfASourceIsProbed(t *testing.T) {
	at, _ := database(t)
	p := port(t)
	broker(t, t.TempDir(), "tok", p)
	found := server.Probe(t.Context(), server.Config{Sources: map[string]server.SourceConfig{"order": {
		DB: at, Broker: fmt.Sprintf("nats://tok@127.0.0.1:%d", p),
		Brokers: map[string]string{"archive": fmt.Sprintf("nats://%s@127.0.0.1:%d", canary, port(t)), "second": fmt.Sprintf("nats://tok@127.0.0.1:%d", p)},
	}}})
	var got []string
	for _, f := range found {
		got = append(got, fmt.Sprint(f.What, " ", f.Err == nil))
		if strings.Contains(fmt.Sprint(f), canary) {
			t.Errorf("a token is shown: %v", f)
		}
	}
	if want := "[database true broker true broker archive false broker second true]"; fmt.Sprint(got) != want {
		t.Errorf("probed: %v, want %s", got, want)
	}
}
