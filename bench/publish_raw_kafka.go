package main

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
)

// publishRawKafka is franz-go at its best for as many unacknowledged records: a
// window that slides, idempotence, a linger of a millisecond, which makes batches
// worth their request (none, or 5 ms, is slower), and no check of anything.
func publishRawKafka() way {
	return way{name: rawName, title: "raw franz-go, a window of 1,000", run: func(ctx context.Context, t task) error {
		cl, err := rawKafkaProducer(t.URL, t.Window)
		if err != nil {
			return err
		}
		defer cl.Close()
		var failed error
		var once sync.Once
		for _, m := range t.messages() {
			cl.Produce(ctx, recordOf(m), func(_ *kgo.Record, err error) {
				if err == nil {
					err = t.meter.count(m.ID)
				}
				if err != nil {
					once.Do(func() { failed = err })
				}
			})
		}
		err = cl.Flush(ctx)
		once.Do(func() {}) // it orders failed before this
		if failed != nil {
			return failed
		}
		return t.meter.unless(err)
	}}
}

// rawKafkaProducer is the client of all ways without Settle; Produce blocks
// while so many records are unacknowledged.
func rawKafkaProducer(at string, window int) (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(kafkaHosts(at)...), kgo.ProducerLinger(time.Millisecond), kgo.MaxBufferedRecords(window),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
}

// recordOf has the envelope and the headers that Settle sends.
func recordOf(m settle.Message) *kgo.Record {
	pairs := settle.WireHeaders(m)
	headers := make([]kgo.RecordHeader, len(pairs))
	for i, p := range pairs {
		headers[i] = kgo.RecordHeader{Key: p[0], Value: []byte(p[1])}
	}
	return &kgo.Record{Topic: m.Event.Topic, Key: []byte(m.Event.AggregateID), Value: settle.AppendEnvelope(nil, m.Event), Headers: headers}
}
