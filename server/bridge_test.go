package server_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/internal/services"
	"github.com/settlemq/settle/server"
)

// foreign is a consumer that is not ours. next receives a message, waiting for
// it, and says how to give it up or be content with it.
type foreign interface {
	next(t *testing.T) (value string, headers map[string]string, giveUp, done func())
}

const patience = time.Minute

func TestADeadLetterOfARabbitMQConsumerThatIsNotOursIsBroughtInAndSentBack(t *testing.T) {
	at := services.URL(t, "SETTLE_TEST_RABBITMQ", "rabbitmq")
	topic := "bridged-" + settle.NewID()
	conn, err := amqp.Dial("amqp" + strings.TrimPrefix(at, "rabbitmq"))
	if err != nil {
		t.Fatal(err)
	}
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	queue := topic + ".stock"
	t.Cleanup(func() {
		removeLadder(ch, queue, 1)
		_ = ch.ExchangeDelete(topic, false, false)
		_ = conn.Close()
	})
	deadAndBack(t, at, topic, "stock", 50*time.Millisecond, &rejecting{ch, queue}, 2)
}

// removeLadder removes the ladder of a queue, with it.
func removeLadder(ch *amqp.Channel, queue string, steps int) {
	for _, q := range []string{"", ".dead"} {
		_, _ = ch.QueueDelete(queue+q, false, false, false)
	}
	for n := range steps {
		_, _ = ch.QueueDelete(fmt.Sprint(queue, ".retry.", n+1), false, false, false)
	}
	for _, e := range []string{".retry", ".retry.steps", ".retry.first", ".back"} {
		_ = ch.ExchangeDelete(queue+e, false, false)
	}
}

// rejecting is a consumer of RabbitMQ.
type rejecting struct {
	ch    *amqp.Channel
	queue string
}

func (r *rejecting) next(t *testing.T) (string, map[string]string, func(), func()) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		d, is, err := r.ch.Get(r.queue, false)
		if err != nil {
			t.Fatal(err)
		}
		if !is {
			continue
		}
		headers := map[string]string{}
		for name, value := range d.Headers {
			headers[name] = fmt.Sprint(value)
		}
		return string(d.Body), headers, func() { _ = d.Reject(false) }, func() { _ = d.Ack(false) }
	}
	t.Fatal("nothing came")
	return "", nil, nil, nil
}

func TestADeadLetterOfAKafkaConsumerThatIsNotOursIsBroughtInAndSentBack(t *testing.T) {
	at := services.URL(t, "SETTLE_TEST_KAFKA", "kafka")
	topic := "bridged-" + settle.NewID()
	seeds := kgo.SeedBrokers(strings.Split(strings.TrimPrefix(at, "kafka://"), ",")...)
	admin, err := kgo.NewClient(seeds)
	if err != nil {
		t.Fatal(err)
	}
	retry, dead := topic+"-stock-retry-50", topic+"-stock-dlt"
	t.Cleanup(func() {
		_, _ = kadm.NewClient(admin).DeleteTopics(context.Background(), topic, retry, dead)
		admin.Close()
	})
	deadAndBack(t, at, topic, "stock", 50*time.Millisecond, &springlike{cl: admin, seeds: seeds, topics: []string{topic, retry}, dead: dead}, 1)
}

// springlike is a consumer of Kafka that gives up as Spring's recoverer does.
type springlike struct {
	cl      *kgo.Client
	seeds   kgo.Opt
	topics  []string
	dead    string
	reading *kgo.Client
}

func (s *springlike) next(t *testing.T) (string, map[string]string, func(), func()) {
	t.Helper()
	if s.reading == nil {
		var err error
		if s.reading, err = kgo.NewClient(s.seeds, kgo.ConsumeTopics(s.topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(100*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.reading.Close)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for ctx.Err() == nil {
		records := s.reading.PollRecords(ctx, 1).Records()
		if len(records) == 0 {
			continue
		}
		headers := map[string]string{}
		for _, h := range records[0].Headers {
			headers[h.Key] = string(h.Value)
		}
		return string(records[0].Value), headers, func() { s.giveUp(t, records[0]) }, func() {}
	}
	t.Fatal("nothing came")
	return "", nil, nil, nil
}

func (s *springlike) giveUp(t *testing.T, r *kgo.Record) {
	t.Helper()
	out := &kgo.Record{Topic: s.dead, Key: r.Key, Value: r.Value, Headers: append(r.Headers,
		kgo.RecordHeader{Key: "kafka_dlt-exception-fqcn", Value: []byte("java.lang.IllegalStateException")},
		kgo.RecordHeader{Key: "kafka_dlt-exception-message", Value: []byte("no stock")},
		kgo.RecordHeader{Key: "kafka_dlt-original-topic", Value: []byte(r.Topic)},
		kgo.RecordHeader{Key: "kafka_dlt-original-partition", Value: binary.BigEndian.AppendUint32(nil, uint32(r.Partition))},
		kgo.RecordHeader{Key: "kafka_dlt-original-offset", Value: binary.BigEndian.AppendUint64(nil, uint64(r.Offset))})}
	if err := s.cl.ProduceSync(t.Context(), out).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// deadAndBack takes an event through a relay to a consumer that gives it up
// after so many attempts, and back to it.
func deadAndBack(t *testing.T, broker, topic, group string, step time.Duration, consumer foreign, attempts int) {
	t.Helper()
	at, db := database(t)
	cfg := server.Config{Sources: map[string]server.SourceConfig{"order": {
		DB: at, Broker: broker, BrokerDurability: server.DurabilityLax,
		Bridges: map[string]server.BridgeConfig{group: {Ladder: server.LadderConfig{Topic: topic, Steps: []time.Duration{step}}}},
	}}}
	s, log, stop := start(t, cfg)
	await(t, s, log, "leads", func(h server.Health) bool { return h.Sources["order"].Bridges[group].State == server.StateLeading })
	other, otherLog, stopOther := start(t, cfg)
	await(t, other, otherLog, "stands by", func(h server.Health) bool { return h.Sources["order"].Bridges[group].State == server.StateStandingBy })
	defer stopOther()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `INSERT INTO t_outbox_event (event_id, event_type, topic, aggregate_id, payload) VALUES ('e1', 'order.created', ?, 'o-1', '{"n": 1}')`, topic); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	var sent string
	for range attempts {
		value, _, giveUp, _ := consumer.next(t)
		sent = value
		giveUp()
	}
	await(t, s, log, "kept", func(h server.Health) bool { return h.Sources["order"].Bridges[group].Kept == 1 })
	first := letterOf(t, db, 0)
	if first.EventID != "e1" || first.Group != group || string(first.Raw) != sent || !first.Foreign || first.Bridged.From == (bridge.Place{}) {
		t.Fatalf("the dead letter is %+v, %+v", first, first.Bridged)
	}
	replay(t, db, first.ID)
	await(t, s, log, "returned", func(h server.Health) bool { return h.Sources["order"].Bridges[group].Returned == 1 })
	for range attempts {
		value, headers, giveUp, _ := consumer.next(t)
		if value != sent || headers[bridge.HeaderReturn] == "" || headers[settle.HeaderEventID] != "e1" {
			t.Fatalf("it comes back as %q with %v", value, headers)
		}
		giveUp()
	}
	await(t, s, log, "kept again", func(h server.Health) bool { return h.Sources["order"].Bridges[group].Kept == 2 })
	second := letterOf(t, db, 1)
	if second.Bridged.Before != first.ID {
		t.Errorf("the second death names %d, want %d", second.Bridged.Before, first.ID)
	}
	replay(t, db, second.ID)
	if value, _, _, done := consumer.next(t); value != sent {
		t.Errorf("it comes back as %q", value)
	} else {
		done()
	}
	await(t, s, log, "returned again", func(h server.Health) bool { return h.Ready && h.Sources["order"].Bridges[group].Returned == 2 })
	if b := other.Health().Sources["order"].Bridges[group]; b.Kept+b.Returned > 0 {
		t.Errorf("the one that stands by has done %+v", b)
	}
	for _, p := range server.Probe(t.Context(), cfg) {
		if p.Err != nil || p.What == "bridge "+group && !strings.Contains(p.Said, "its broker answers") {
			t.Errorf("the probe says %+v", p)
		}
	}
	stop()
	await(t, other, otherLog, "takes over", func(h server.Health) bool { return h.Sources["order"].Bridges[group].State == server.StateLeading })
}

func letterOf(t *testing.T, db *dial.Database, i int) govern.DeadLetter {
	t.Helper()
	found, err := db.Governance.DeadLetters(t.Context(), govern.Filter{State: "any"})
	if err != nil || len(found) != i+1 {
		t.Fatalf("dead letters are %+v, %v; want %d", found, err, i+1)
	}
	d, err := db.Governance.DeadLetter(t.Context(), found[i].ID)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func replay(t *testing.T, db *dial.Database, id int64) {
	t.Helper()
	out, err := db.Governance.Replay(t.Context(), govern.Act{By: "ann", Reason: "stocked"}, govern.ReplayOptions{}, id)
	if err != nil || out[0].Result != "done" {
		t.Fatalf("Replay: %+v, %v", out, err)
	}
}

func TestABridgeWhosePlaceIsMissingSaysSoAndStopsNoOther(t *testing.T) {
	at := services.URL(t, "SETTLE_TEST_RABBITMQ", "rabbitmq")
	db, _ := database(t)
	s, log, stop := start(t, server.Config{Sources: map[string]server.SourceConfig{"order": {
		DB: db, Broker: at, BrokerDurability: server.DurabilityLax, Bridges: map[string]server.BridgeConfig{"stock": {Dead: []string{"no-such-queue"}}},
	}}})
	await(t, s, log, "says so", func(h server.Health) bool {
		b := h.Sources["order"].Bridges["stock"]
		return !h.Ready && h.Sources["order"].State == server.StateLeading && b.State == server.StateUnreachable && strings.Contains(b.Cause, "no-such-queue")
	})
	stop()
}
