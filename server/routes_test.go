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
		Routes:  []server.RouteConfig{{EventType: "y", To: []string{"archive"}}},
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

func TestAnEventGoesToSeveralBrokersOfWhichOneIsDown(t *testing.T) {
	at, db := database(t)
	here, there := port(t), port(t)
	broker(t, t.TempDir(), "tok", here)
	s, log, _ := start(t, server.Config{Sources: map[string]server.SourceConfig{"order": {
		DB: at, Broker: fmt.Sprintf("nats://tok@127.0.0.1:%d", here), Relay: server.RelayConfig{LeaseTTL: time.Second, PublishTimeout: time.Second},
		Brokers: map[string]string{"archive": fmt.Sprintf("nats://%s@127.0.0.1:%d", canary, there)},
		Routes:  []server.RouteConfig{{To: []string{server.DefaultBroker, "archive"}}},
	}}})
	status := func(id string) (status string) {
		if err := db.Reader.QueryRowContext(t.Context(), `SELECT status FROM v_outbox_event WHERE event_id = ?`, id).Scan(&status); err != nil {
			t.Fatal(err)
		}
		return status
	}
	insert(t, db, "e-1")
	exec(t, db, `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload, not_before) VALUES ('d-1', 'x', 'd', '{}', (unixepoch() + 13) * 1000000)`)
	await(t, s, log, "sending", func(h server.Health) bool {
		return h.Sources["order"].Published >= 1 && is("order", server.StateUnreachable, "broker")(h)
	})
	if got := status("e-1"); got != "PENDING" {
		t.Errorf("one of two brokers has the event, and it is %s", got)
	}
	broker(t, t.TempDir(), canary, there)
	await(t, s, log, "level", func(h server.Health) bool { return h.Sources["order"].Published == 4 && h.Ready })
	for _, id := range []string{"e-1", "d-1"} {
		await(t, s, log, "shown as sent", func(server.Health) bool { return status(id) == "SENT" })
	}
	var copies, brokers int
	if err := db.Reader.QueryRowContext(t.Context(), `SELECT count(*), count(DISTINCT topic) FROM v_outbox_sent`).Scan(&copies, &brokers); err != nil || copies != 4 || brokers != 2 {
		t.Errorf("%d copies at %d destinations are recorded (%v), want 2 at each of 2", copies, brokers, err)
	}
}
