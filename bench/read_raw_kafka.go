package main

import (
	"context"
	"errors"
	"hash/maphash"
	"runtime"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
)

// readRawKafka is a member of a group as it is written by hand with franz-go:
// what was read is dealt out by key, decoded and counted, and what was read
// before that is committed now and then.
func readRawKafka() way {
	return way{name: rawName, title: "raw franz-go, decoded, dealt out by key", run: func(ctx context.Context, t task) error {
		cl, err := kgo.NewClient(kgo.SeedBrokers(kafkaHosts(t.URL)...), kgo.ConsumerGroup(t.Group), kgo.ConsumeTopics(t.Topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.AutoCommitMarks(), kgo.AutoCommitInterval(100*time.Millisecond), kgo.BlockRebalanceOnPoll())
		if err != nil {
			return err
		}
		defer cl.CloseAllowingRebalance()
		hands := newHands(t.meter)
		defer hands.end()
		for {
			fetches := cl.PollFetches(ctx)
			if ctx.Err() != nil {
				return t.meter.unless(ctx.Err())
			}
			if err := fetches.Err(); err != nil {
				return err
			}
			if err := hands.work(fetches.Records()); err != nil {
				return err
			}
			cl.MarkCommitRecords(fetches.Records()...)
			cl.AllowRebalance()
		}
	}}
}

// hands are goroutines that have keys of their own.
type hands struct {
	meter *meter
	seed  maphash.Seed
	given []chan []*kgo.Record
	done  chan error
	ended sync.WaitGroup
}

func newHands(m *meter) *hands {
	h := &hands{meter: m, seed: maphash.MakeSeed(), given: make([]chan []*kgo.Record, runtime.GOMAXPROCS(0)), done: make(chan error)}
	for i := range h.given {
		h.given[i] = make(chan []*kgo.Record)
		h.ended.Go(func() {
			for records := range h.given[i] {
				h.done <- h.take(records)
			}
		})
	}
	return h
}

// work returns when all records were counted.
func (h *hands) work(records []*kgo.Record) (err error) {
	dealt := make([][]*kgo.Record, len(h.given))
	for _, r := range records {
		n := maphash.Bytes(h.seed, r.Key) % uint64(len(dealt))
		dealt[n] = append(dealt[n], r)
	}
	for i, c := range h.given {
		c <- dealt[i]
	}
	for range h.given {
		err = errors.Join(err, <-h.done)
	}
	return err
}

func (h *hands) take(records []*kgo.Record) error {
	for _, r := range records {
		headers := make(map[string]string, len(r.Headers))
		for _, x := range r.Headers {
			headers[x.Key] = string(x.Value)
		}
		e, err := settle.DecodeEnvelope(r.Value, headers)
		if err != nil {
			return err
		}
		if err := h.meter.count(e.ID); err != nil {
			return err
		}
	}
	return nil
}

func (h *hands) end() {
	for _, c := range h.given {
		close(c)
	}
	h.ended.Wait()
}
