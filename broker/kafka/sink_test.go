package kafka_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/kafka"
)

// sink keeps what is delivered, as long as it is not told otherwise.
type sink struct {
	// hold is called before each delivery is taken.
	hold func(ctx context.Context, records []settle.Record) error

	mu       sync.Mutex
	all      []settle.Record
	largest  int
	changed  chan struct{}
	patience time.Duration
}

func newSink() *sink { return &sink{changed: make(chan struct{}, 1), patience: patience} }

func (s *sink) Deliver(ctx context.Context, _ settle.Partition, records []settle.Record) error {
	if s.hold != nil {
		if err := s.hold(ctx, records); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, records...)
	s.largest = max(s.largest, len(records))
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return nil
}

func (s *sink) records() []settle.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]settle.Record(nil), s.all...)
}

// await waits until n records were delivered.
func (s *sink) await(t testing.TB, n int) []settle.Record {
	t.Helper()
	deadline := time.After(s.patience)
	for {
		if all := s.records(); len(all) >= n {
			return all
		}
		select {
		case <-s.changed:
		case <-deadline:
			t.Fatalf("%d of %d records were delivered", len(s.records()), n)
		}
	}
}

// join subscribes to the rig's topic until the test or the call of leave ends.
func (r *rig) join(t testing.TB, b *kafka.Broker, group string, s settle.Sink) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Subscribe(ctx, settle.Subscription{Group: group, Topics: []string{r.topic}}, s) }()
	leave = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, settle.ErrClosed) {
			t.Errorf("subscribe: %v", err)
		}
	})
	t.Cleanup(leave)
	return leave
}

// journal is a log that can be read while it is written.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

func (j *journal) lines(with string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []string
	for line := range strings.Lines(j.buf.String()) {
		if strings.Contains(line, with) {
			found = append(found, line)
		}
	}
	return found
}

// await waits for a line.
func (j *journal) await(t testing.TB, with string) string {
	t.Helper()
	await(t, "a line of the log with "+with, func() bool { return len(j.lines(with)) > 0 })
	return j.lines(with)[0]
}

// await asks until something is so.
func await(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// messageOf is an event of a key with a payload of about some bytes, which do
// not compress.
func (r *rig) messageOf(key string, seq int64, bytes int) settle.Message {
	id := settle.NewID()
	payload := []byte(`{"n":1}`)
	if bytes > 0 {
		noise := make([]byte, bytes*3/4)
		_, _ = rand.Read(noise) // never fails
		payload = []byte(`"` + base64.StdEncoding.EncodeToString(noise) + `"`)
	}
	e := &settle.Event{ID: id, Type: "Counted", Topic: r.topic, AggregateID: key, AggregateSeq: seq, OccurredAt: time.Now(), AppendedAt: time.Now(), Payload: payload}
	return settle.Message{ID: id, Event: e}
}
