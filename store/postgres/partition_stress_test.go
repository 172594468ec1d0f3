package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

// recorder keeps the sequence numbers of each key as they were first published.
type recorder struct {
	mu   sync.Mutex
	seen map[string]bool
	seqs map[string][]int64
	more chan struct{}
}

func (r *recorder) Publish(_ context.Context, batch []settle.Message) []settle.Receipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range batch {
		if e := m.Event; !r.seen[e.ID] {
			r.seen[e.ID] = true
			r.seqs[e.AggregateID] = append(r.seqs[e.AggregateID], e.AggregateSeq)
		}
	}
	select {
	case r.more <- struct{}{}:
	default:
	}
	return make([]settle.Receipt, len(batch))
}

// has waits until so many events were published.
func (r *recorder) has(t *testing.T, want int) {
	t.Helper()
	late := time.After(2 * time.Minute)
	for {
		r.mu.Lock()
		n := len(r.seen)
		r.mu.Unlock()
		if n == want {
			return
		}
		select {
		case <-r.more:
		case <-late:
			t.Fatalf("%d events were published, want %d", n, want)
		}
	}
}

// Partitions come and go under writers that roll back and stay open: no insert
// fails, nothing is lost, and each key stays in order.
func TestPartitionsComeAndGoUnderLoadAndNothingIsLost(t *testing.T) {
	at := DatabaseForTest(t) + "&synchronous_commit=off"
	PartitionForTest(t, at, 40)
	s := OpenForTest(t, at, Config{})
	plant(t, s, "CREATE TABLE t_key (key text PRIMARY KEY, n bigint NOT NULL)")
	broker := &recorder{seen: map[string]bool{}, seqs: map[string][]int64{}, more: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	l := s.Log()
	r := relay.New(l, broker, relay.Config{KeepFor: 200 * time.Millisecond, RetainEvery: 10 * time.Millisecond, SweepEvery: 50 * time.Millisecond,
		HoleAge: 10 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	go func() { ended <- r.Run(ctx) }()
	committed := writeKeys(t, s, 8, 150)
	broker.has(t, committed)
	for key, seqs := range broker.seqs {
		for i, n := range seqs {
			if n != int64(i+1) {
				t.Fatalf("%s was first published in the order %v", key, seqs)
			}
		}
	}
	// A row that takes an id which was rolled back, of a partition that has gone.
	for is := (layoutFound{}); !is.whole || is.parts[0].until < 200; {
		l.putOff(time.Time{}) // nobody is in the way any more
		var err error
		if is, err = findPartitions(t.Context(), s.own); err == nil {
			err = stillRuns(t, ended)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var late int64
	for late == 0 {
		err := s.own.QueryRow(t.Context(), `SELECT coalesce(min(g.first_id), 0) FROM t_outbox_gap g WHERE NOT EXISTS (SELECT FROM t_outbox_event e WHERE e.id = g.first_id)
 AND g.first_id < (SELECT max(split_part(c.relname, 'until_', 2)::bigint) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 't_outbox_event'::regclass AND c.relname LIKE '%until%')`).Scan(&late)
		if err != nil {
			t.Fatal(err)
		}
		if err := stillRuns(t, ended); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.own.Exec(t.Context(), `INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) VALUES ($1, 'late', 'x', 'late', '{}')`, late); err != nil {
		t.Fatal(err)
	}
	broker.has(t, committed+1)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// stillRuns lets the relay work, and tells when it has ended.
func stillRuns(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return fmt.Errorf("the relay has ended: %w", errors.Join(err, t.Context().Err()))
	case <-time.After(30 * time.Millisecond):
		return nil
	}
}

// writeKeys has writers append events that count by key, and returns how many
// were committed.
func writeKeys(t *testing.T, s *Store, writers, each int) int {
	t.Helper()
	var mu sync.Mutex
	total := 0
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 5))
			for range each {
				key := fmt.Sprint("k", random.IntN(20))
				err := pgx.BeginFunc(t.Context(), s.business, func(tx pgx.Tx) error {
					var n int64
					if err := tx.QueryRow(t.Context(), `INSERT INTO t_key VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET n = t_key.n + 1 RETURNING n`, key).Scan(&n); err != nil {
						return err
					}
					e := &settle.Event{Type: "x", AggregateID: key, AggregateSeq: n, Payload: []byte("{}")}
					if random.IntN(2) == 0 {
						e.ID = fmt.Sprint(key, "-", n, "-", w)
					}
					if err := s.Pgx().Append(t.Context(), tx, e); err != nil {
						return err
					}
					if random.IntN(20) == 0 {
						if _, err := tx.Exec(t.Context(), "SELECT pg_sleep(0.05)"); err != nil {
							return err
						}
					}
					if random.IntN(10) < 3 {
						return errUndo
					}
					return nil
				})
				switch {
				case err == nil:
					mu.Lock()
					total++
					mu.Unlock()
				case !errors.Is(err, errUndo):
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return total
}
