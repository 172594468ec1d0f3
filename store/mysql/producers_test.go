package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// producers append one event a transaction, in sessions in which a lock that is
// not given at once is an error.
type producers struct {
	s        *Store
	sessions []*sql.DB
}

func producersOf(t *testing.T, s *Store, at string, n int) *producers {
	t.Helper()
	cfg, err := parseURL(at)
	if err != nil {
		t.Fatal(err)
	}
	p := &producers{s: s}
	for range n {
		// MySQL waits for a second at least.
		db, err := pool(cfg, map[string]string{"innodb_lock_wait_timeout": "0"}, 1, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		p.sessions = append(p.sessions, db)
	}
	return p
}

func (p *producers) appendOne(ctx context.Context, db *sql.DB, undo bool) error {
	tx, err := db.BeginTx(ctx, &readCommitted)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	e := &settle.Event{Type: "order.created", AggregateID: "k", AppendedAt: time.Now().Add(-time.Hour), Payload: []byte("{}")}
	if err := p.s.Append(ctx, tx, e); err != nil || undo {
		return err
	}
	return tx.Commit()
}

// run returns how long each transaction took that commits; every third is undone.
func (p *producers) run(ctx context.Context, during time.Duration) (took []time.Duration, failed error) {
	var mu sync.Mutex
	var group sync.WaitGroup
	end := time.Now().Add(during)
	for _, db := range p.sessions {
		group.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				began, undo := time.Now(), i%3 == 2
				err := p.appendOne(ctx, db, undo)
				mu.Lock()
				if err != nil {
					failed = err
				} else if !undo {
					took = append(took, time.Since(began))
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return took, failed
}

// busyRelay does all that a relay does to the table, as often as it can, until
// ctx is done.
func busyRelay(ctx context.Context, l *Log) error {
	lease, err := l.Lead(ctx, "me", 0, time.Hour)
	if err != nil || !lease.Held {
		return fmt.Errorf("%+v: %w", lease, err)
	}
	cursor, number := int64(0), int64(0)
	var holes []int64
	for ctx.Err() == nil {
		p, err := l.Poll(ctx, relay.PollQuery{After: cursor, Holes: holes, MaxRows: 500, MaxBytes: 1 << 20})
		if err != nil {
			return err
		}
		for _, r := range p.Rows {
			cursor = max(cursor, r.ID)
		}
		holes = nil
		for _, r := range l.missing.Runs() {
			for id := r[0]; id <= r[1]; id++ {
				holes = append(holes, id)
			}
		}
		if _, err := l.locked(ctx, outboxlog.Runs(holes)); err != nil {
			return err
		}
		number++
		f := relay.Flush{Checkpoint: relay.Checkpoint{Number: number, Readers: []relay.Reader{{Cursor: cursor, Open: holes}}}}
		if len(holes) > 50 {
			f.Cold = holes[:len(holes)-50]
			f.Checkpoint.Readers[0].Open = holes[len(holes)-50:]
		}
		if err := l.Commit(ctx, lease, f); err != nil {
			return err
		}
		if number%10 == 0 {
			if _, err := l.Retain(ctx, lease, time.Now(), 500); err != nil {
				return err
			}
			if _, err := l.Sweep(ctx, lease, 100); err != nil {
				return err
			}
		}
	}
	return nil
}

func p99(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)*99/100]
}

func TestProducersNeverWaitForARelay(t *testing.T) {
	at := DatabaseForTest(t)
	s := OpenForTest(t, at, Config{})
	p := producersOf(t, s, at, 4)
	var without, with []time.Duration
	for range 4 {
		took, err := p.run(t.Context(), 300*time.Millisecond)
		if err != nil {
			t.Fatalf("without a relay: %v", err)
		}
		without = append(without, took...)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- busyRelay(ctx, s.Log()) }()
		took, err = p.run(t.Context(), 300*time.Millisecond)
		cancel()
		if failed := <-ended; failed != nil && ctx.Err() == nil {
			t.Fatal(failed)
		}
		if err != nil {
			t.Fatalf("beside a relay: %v", err)
		}
		with = append(with, took...)
	}
	a, b := p99(without), p99(with)
	if t.Logf("99th percentile of %d and %d commits: %v without a relay, %v beside one", len(without), len(with), a, b); b > 10*a+200*time.Millisecond {
		t.Errorf("a producer takes %v beside a relay, and %v without", b, a)
	}
}

func TestALockingScanIsNoticedByProducers(t *testing.T) {
	at := DatabaseForTest(t)
	s := OpenForTest(t, at, Config{})
	p := producersOf(t, s, at, 1)
	if err := p.appendOne(t.Context(), p.sessions[0], false); err != nil {
		t.Fatal(err)
	}
	tx, err := s.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := each(t.Context(), tx, []any{new(int64)}, func() {}, "SELECT id FROM t_outbox_event WHERE id > 0 ORDER BY id LIMIT 100"); err != nil {
		t.Fatal(err)
	}
	if err := p.appendOne(t.Context(), p.sessions[0], false); !hasCode(err, codeLockWait) {
		t.Errorf("beside a scan that locks what it reads a producer says %v, want that it must wait", err)
	}
}
