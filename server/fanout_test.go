package server_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/internal/services"
	"github.com/settlemq/settle/server"
)

func TestRowsReachKafkaAndRabbitMQEachOnceAndInOrder(t *testing.T) {
	kafka, rabbit := services.URL(t, "SETTLE_TEST_KAFKA", "kafka"), services.URL(t, "SETTLE_TEST_RABBITMQ", "rabbitmq")
	const rows, keys = 200, 5
	topic := rabbitTopic(t, rabbit, "points")
	t.Cleanup(func() { deleteTopic(kafka, topic) })
	at, db := database(t)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if _, err := tx.ExecContext(t.Context(), `INSERT INTO t_outbox_event (event_id, event_type, topic, aggregate_id, payload) VALUES (?, 'Counted', ?, ?, ?)`,
			fmt.Sprint("e-", i), topic, fmt.Sprint("k", i%keys), fmt.Sprintf(`{"n": %d}`, i/keys)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	s, log, stop := start(t, server.Config{Sources: map[string]server.SourceConfig{"order": {
		DB: at, Broker: kafka, Topics: []string{topic}, Groups: []string{"points"}, BrokerDurability: server.DurabilityLax,
		// A stall of the machine ends no lease and no call: what is in doubt goes again.
		Relay:   server.RelayConfig{LeaseTTL: 2 * time.Minute, PublishTimeout: time.Minute},
		Brokers: map[string]string{"rabbit": rabbit},
		Routes:  []server.RouteConfig{{EventType: "Counted", To: []string{server.DefaultBroker, "rabbit"}}},
	}}})
	await(t, s, log, "done", func(h server.Health) bool { return h.Sources["order"].Published == 2*rows })
	stop()
	for _, broker := range []string{kafka, rabbit} {
		wantCounted(t, broker, topic, rows)
	}
	var sent, copies int
	if err := db.Reader.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM v_outbox_event WHERE status = 'SENT'), (SELECT count(*) FROM v_outbox_sent)`).Scan(&sent, &copies); err != nil || sent != rows || copies != 2*rows {
		t.Errorf("%d events are SENT, %d copies are recorded: %v", sent, copies, err)
	}
}

// wantCounted reads a topic as group points does, and checks that each event is
// there once and in the order of its key.
func wantCounted(t *testing.T, at, topic string, rows int) {
	t.Helper()
	b, err := dial.Broker(t.Context(), at, dial.BrokerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	got, ended := make(reader), make(chan error, 1)
	go func() { ended <- b.Subscribe(ctx, settle.Subscription{Group: "points", Topics: []string{topic}}, got) }()
	next := map[string]string{}
	for n := range rows {
		select {
		case rec := <-got:
			key := rec.Event.AggregateID
			if want := fmt.Sprintf(`{"n": %d}`, len(next[key])); string(rec.Event.Payload) != want {
				t.Fatalf("of %s comes %s at %.8s…, want %s", key, rec.Event.Payload, at, want)
			}
			next[key] += "."
		case err := <-ended:
			t.Fatalf("the subscription ended: %v", err)
		case <-ctx.Done():
			t.Fatalf("%d of %d events came", n, rows)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
