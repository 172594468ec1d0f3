package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/internal/services"
	"github.com/settlemq/settle/relay"
)

// sleeper makes of a relay one that sleeps with a batch in its hands, as a
// process does that is stopped: it renews no lease, and when it wakes up it
// publishes what it had decided to, whatever the time.
type sleeper struct {
	relay.Store
	settle.Publisher
	asleep atomic.Bool
	held   chan struct{} // closed when it has a batch in its hands
	wake   chan struct{}
	awoken chan []settle.Receipt
}

var errAsleep = errors.New("asleep")

func (s *sleeper) Lead(ctx context.Context, owner string, lane int, ttl time.Duration) (relay.Lease, error) {
	select {
	case <-s.held:
		return relay.Lease{}, errAsleep
	default:
		return s.Store.Lead(ctx, owner, lane, ttl)
	}
}

func (s *sleeper) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	if !s.asleep.Load() {
		return s.Publisher.Publish(ctx, batch)
	}
	select {
	case <-s.held: // there is one that sleeps
		return s.Publisher.Publish(ctx, batch)
	default:
	}
	close(s.held)
	<-s.wake
	receipts := s.Publisher.Publish(context.WithoutCancel(ctx), batch)
	s.awoken <- receipts
	return receipts
}

func TestARelayThatSleptPastItsLeaseIsFencedByKafkaOrWritesOneBatchTwice(t *testing.T) {
	at := services.URL(t, "SETTLE_TEST_KAFKA", "kafka")
	for name, options := range map[string]string{"with a fence": "?fence=true", "without": ""} {
		t.Run(name, func(t *testing.T) {
			const rows = 60
			topic := "asleep-" + settle.NewID()
			t.Cleanup(func() { deleteTopic(at, topic) })
			_, db := database(t)
			s := &sleeper{Store: db.NewLog(), held: make(chan struct{}), wake: make(chan struct{}), awoken: make(chan []settle.Receipt, 1)}
			s.Publisher = kafkaForTest(t, at+options)
			first := startRelay(t, topic, s, s)
			addRows(t, db, topic, 0, rows)
			first.await(t, rows)
			s.asleep.Store(true)
			addRows(t, db, topic, rows, 2*rows)
			first.Wake()
			<-s.held
			second := startRelay(t, topic, db.NewLog(), kafkaForTest(t, at+options))
			second.await(t, rows)
			close(s.wake)
			receipts := <-s.awoken
			written := 0
			for _, r := range receipts {
				switch {
				case r.Err == nil:
					written++
				case !errors.Is(r.Err, settle.ErrFenced):
					t.Errorf("what it woke up with: %v", r.Err)
				}
			}
			copies := 0
			seen := committed(t, at, topic)
			for _, n := range seen {
				copies += n - 1
			}
			t.Logf("of %d events that it woke up with %d were written; %d events seen, %d second copies", len(receipts), written, len(seen), copies)
			if len(seen) != 2*rows || copies != written || options != "" && written > 0 || options == "" && written != len(receipts) {
				t.Error("that is not what is promised")
			}
		})
	}
}

// running is a relay at work.
type running struct{ *relay.Relay }

func startRelay(t *testing.T, name string, store relay.Store, pub settle.Publisher) running {
	t.Helper()
	r := relay.New(store, pub, relay.Config{Name: name, LeaseTTL: time.Second, Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return running{r}
}

func (r running) await(t *testing.T, published int64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); r.Stats().Published < published; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %+v", r.Stats())
		}
	}
}

func kafkaForTest(t *testing.T, at string) settle.Broker {
	t.Helper()
	b, err := dial.Broker(t.Context(), at, dial.BrokerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func addRows(t *testing.T, db *dial.Database, topic string, from, to int) {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i < to; i++ {
		if _, err := tx.ExecContext(t.Context(), `INSERT INTO t_outbox_event (event_id, event_type, topic, aggregate_id, payload) VALUES (?, 'Counted', ?, ?, '{}')`,
			fmt.Sprint("e-", i), topic, fmt.Sprint("k", i%7)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// committed counts the copies of each event that consumers see who read what is
// committed.
func committed(t *testing.T, at, topic string) map[string]int {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(at[len("kafka://"):]), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := map[string]int{}
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("the topic can't be read to its end: %v are missing", left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				for _, h := range r.Headers {
					if h.Key == settle.HeaderEventID {
						seen[string(h.Value)]++
					}
				}
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return seen
}
