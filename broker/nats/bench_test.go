package nats_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/nats"
)

// BenchmarkPublish sends batches through the broker and, in turns, the same
// bytes as raw atomic batches; vs_raw is the ratio of the rates.
func BenchmarkPublish(b *testing.B) {
	for _, size := range []int{100, 500} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			r := newRig(b)
			broker := open(b, r.url)
			defer broker.Close()
			nc := rawStream(b, r)
			var ours, raw time.Duration
			n := 0
			for b.Loop() {
				batch := sample(&n, size)
				began := time.Now()
				for _, receipt := range broker.Publish(b.Context(), batch) {
					if receipt.Err != nil {
						b.Fatal(receipt.Err)
					}
				}
				ours += time.Since(began)
				batch = sample(&n, size)
				began = time.Now()
				rawBatch(b, nc, batch)
				raw += time.Since(began)
			}
			events := float64(b.N * size)
			b.ReportMetric(events/ours.Seconds(), "events/s")
			b.ReportMetric(events/raw.Seconds(), "raw_events/s")
			b.ReportMetric(raw.Seconds()/ours.Seconds(), "vs_raw")
		})
	}
}

func sample(n *int, size int) []settle.Message {
	batch := make([]settle.Message, size)
	for i := range batch {
		*n++
		id := fmt.Sprintf("0190a5b0-0000-7000-8000-%012d", *n)
		batch[i] = settle.Message{ID: id, Epoch: 1, Source: "bench", Event: &settle.Event{
			ID: id, Type: "order.created", AggregateType: "order", AggregateID: "o-" + strconv.Itoa(*n%1000), Topic: topicName,
			OccurredAt: time.Now(), AppendedAt: time.Now(), Payload: []byte(`{"note":"` + strings.Repeat("x", 245) + `"}`),
		}}
	}
	return batch
}

func rawStream(b *testing.B, r *rig) *natsgo.Conn {
	b.Helper()
	cfg := jetstream.StreamConfig{Name: "raw", Subjects: []string{"raw.*"}, AllowAtomicPublish: true}
	if _, err := r.js(b).CreateStream(b.Context(), cfg); err != nil {
		b.Fatal(err)
	}
	nc, err := natsgo.Connect(r.url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	return nc
}

func rawBatch(b *testing.B, nc *natsgo.Conn, batch []settle.Message) {
	b.Helper()
	id := rand.Text()
	for i, m := range batch {
		msg := &natsgo.Msg{Subject: "raw." + strconv.Itoa(settle.PartitionOf(m.Event.Key(), 16)), Data: settle.AppendEnvelope(nil, m.Event), Header: natsgo.Header{}}
		for _, h := range settle.WireHeaders(m) {
			msg.Header[h[0]] = []string{h[1]}
		}
		msg.Header[natsgo.MsgIdHdr] = []string{m.ID}
		msg.Header["Nats-Batch-Id"] = []string{id}
		msg.Header["Nats-Batch-Sequence"] = []string{strconv.Itoa(i + 1)}
		if i < len(batch)-1 {
			if err := nc.PublishMsg(msg); err != nil {
				b.Fatal(err)
			}
			continue
		}
		msg.Header["Nats-Batch-Commit"] = []string{"1"}
		ack, err := nc.RequestMsg(msg, 5*time.Second)
		if err != nil || !strings.Contains(string(ack.Data), `"count":`+strconv.Itoa(len(batch))) {
			b.Fatal(err, string(ack.Data))
		}
	}
}

// BenchmarkDrain reads 50,000 events with a sink that does nothing.
func BenchmarkDrain(b *testing.B) {
	const events = 50_000
	r := newRig(b)
	broker := open(b, r.url)
	defer broker.Close()
	for n := 0; n < events; {
		broker.Publish(b.Context(), sample(&n, 500))
	}
	var took time.Duration
	for b.Loop() {
		began := time.Now()
		drain(b, broker, events)
		took += time.Since(began)
	}
	b.ReportMetric(float64(b.N*events)/took.Seconds(), "events/s")
}

func drain(b *testing.B, broker *nats.Broker, events int64) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var got atomic.Int64
	sink := sinkFunc(func(_ context.Context, _ settle.Partition, records []settle.Record) error {
		if got.Add(int64(len(records))) >= events {
			cancel()
		}
		return nil
	})
	if err := broker.Subscribe(ctx, settle.Subscription{Group: "drain", Topics: []string{topicName}, Ownership: ownAll{}}, sink); err != nil {
		b.Fatal(err)
	}
}

type sinkFunc func(ctx context.Context, p settle.Partition, records []settle.Record) error

func (f sinkFunc) Deliver(ctx context.Context, p settle.Partition, records []settle.Record) error {
	return f(ctx, p, records)
}

// ownAll owns every partition from the beginning.
type ownAll struct{}

func (ownAll) Claim(_ context.Context, topic string, n int) ([]settle.Claim, error) {
	claims := make([]settle.Claim, n)
	for i := range claims {
		claims[i] = settle.Claim{Partition: settle.Partition{Topic: topic, Number: i, Owner: "all", Epoch: 1}, Expires: time.Now().Add(time.Minute)}
	}
	return claims, nil
}

func (ownAll) RaiseFloor(context.Context, settle.Partition, settle.Floor) error { return nil }
