package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/internal/services"
	"github.com/settlemq/settle/server"
)

// reader keeps what a group gets.
type reader chan settle.Record

func (r reader) Deliver(ctx context.Context, _ settle.Partition, records []settle.Record) error {
	for _, rec := range records {
		select {
		case r <- rec:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func TestRowsReachKafkaOnceInOrderAndTheTrailSaysWhere(t *testing.T) {
	broker := services.URL(t, "SETTLE_TEST_KAFKA", "kafka")
	const rows, keys = 600, 5
	at, db := database(t)
	topic := "serve-" + settle.NewID()
	t.Cleanup(func() { deleteTopic(broker, topic) })
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
	// The server of the tests is alone: a cluster of one node may lose what it has.
	s, log, stop := start(t, server.Config{Sources: map[string]server.SourceConfig{
		"order": {DB: at, Broker: broker, Topics: []string{topic}, BrokerDurability: server.DurabilityLax, Relay: server.RelayConfig{LeaseTTL: time.Second}},
	}})
	await(t, s, log, "done", func(h server.Health) bool { return h.Sources["order"].Published == rows })
	checkKafka(t, broker, topic, rows, db)
	stop()
}

// checkKafka reads the topic as a group does, and the trail of each event.
func checkKafka(t *testing.T, at, topic string, rows int, db *dial.Database) {
	t.Helper()
	b, err := dial.Broker(t.Context(), at, dial.BrokerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	got, next, found := make(reader), map[string]int{}, map[string]settle.Coordinates{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- b.Subscribe(ctx, settle.Subscription{Group: "g-" + topic, Topics: []string{topic}}, got)
	}()
	for range rows {
		select {
		case rec := <-got:
			var body struct{ N int }
			if err := json.Unmarshal(rec.Event.Payload, &body); err != nil {
				t.Fatal(err)
			}
			if key := rec.Event.AggregateID; body.N != next[key] {
				t.Fatalf("event %d of %s came when %d was next", body.N, key, next[key])
			}
			next[rec.Event.AggregateID]++
			found[rec.Event.ID] = rec.At
		case <-ctx.Done():
			t.Fatalf("%d of %d events came", len(found), rows)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for key := range next {
		steps, err := db.Governance.Trail(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			if step.Broker.Topic == "" {
				continue
			}
			if step.Broker != found[step.EventID] {
				t.Fatalf("event %s is at %+v, its trail says %+v", step.EventID, found[step.EventID], step.Broker)
			}
			delete(found, step.EventID)
		}
	}
	if len(found) > 0 {
		t.Errorf("of %d events the trail does not say where they are", len(found))
	}
}

func deleteTopic(at, topic string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.TrimPrefix(at, "kafka://")))
	if err != nil {
		return
	}
	defer cl.Close()
	_, _ = kadm.NewClient(cl).DeleteTopics(context.Background(), topic)
}
