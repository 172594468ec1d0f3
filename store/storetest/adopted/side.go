package adopted

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

const (
	foreignInsert = `INSERT INTO t_message_consume_log (consumer_group, message_id, biz_key, status) VALUES ('g', ?, 'k', 'PROCESSING')`
	foreignEnd    = `UPDATE t_message_consume_log SET status = 'SUCCESS', consumed_at = CURRENT_TIMESTAMP WHERE consumer_group = 'g' AND message_id = ?`
)

var errDies = errors.New("it dies")

// consume is a foreign consumer, which works as tutorials say: insert, business,
// mark, in one transaction or two. It dies now and then.
func (s *Service) consume(ctx context.Context, id string, n int) error {
	insert := func(tx *sql.Tx) (bool, error) {
		r, err := tx.ExecContext(ctx, s.sql(s.Once(foreignInsert)), id)
		if err != nil {
			return false, err
		}
		rows, err := r.RowsAffected()
		return rows == 1, err
	}
	business := func(tx *sql.Tx) error {
		if err := s.effect(ctx, tx, id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, s.sql(foreignEnd), id)
		return err
	}
	if n%2 == 0 {
		return s.begin(ctx, func(tx *sql.Tx) error {
			mine, err := insert(tx)
			if err == nil && mine {
				err = business(tx)
			}
			if err == nil && n%10 == 4 {
				return errDies // before its commit
			}
			return err
		})
	}
	mine := false
	err := s.begin(ctx, func(tx *sql.Tx) (err error) { mine, err = insert(tx); return err })
	if err != nil || !mine || n%10 == 7 {
		return err // or it dies between the two
	}
	return s.begin(ctx, business)
}

// begin runs do in a transaction, and again when the server has chosen it to
// make way for another.
func (s *Service) begin(ctx context.Context, do func(tx *sql.Tx) error) error {
	for {
		tx, err := s.DB.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err = do(tx); err == nil {
			err = tx.Commit()
		}
		_ = tx.Rollback()
		switch {
		case err == nil, errors.Is(err, errDies):
			return nil
		case s.Again == nil || !s.Again(err):
			return err
		}
	}
}

// apply applies items until each has a result that lasts.
func (s *Service) apply(ctx context.Context, store Store, items []settle.Item) error {
	for try := 0; len(items) > 0; {
		rs, err := store.Inbox.Apply(ctx, settle.Work{Group: "g", Items: items, TakeoverAfter: 3 * time.Second}, func(ctx context.Context, tx *sql.Tx, i int) error {
			return s.effect(ctx, tx, items[i].Record.Event.ID)
		})
		if err != nil {
			if try++; try > 50 {
				return err
			}
			continue
		}
		var left []settle.Item
		for i, r := range rs {
			if !r.Verdict.Durable() {
				left = append(left, items[i])
			}
		}
		items = left
	}
	return nil
}

// SideBySide checks that of messages that foreign consumers and Settle get at the
// same time, some of them twice, each takes effect once.
func SideBySide(t *testing.T, open Open, events int) {
	s := SharedLog(t, open, "UTC")
	store := s.Open(Options{MaxConns: 8})
	var group sync.WaitGroup
	for w := range 2 {
		group.Go(func() {
			for n := range events {
				for range 1 + n%3/2 {
					if err := s.consume(t.Context(), fmt.Sprint("e-", (n*7+w*events/2)%events), n); err != nil {
						t.Errorf("foreign consumer: %v", err)
						return
					}
				}
			}
		})
		group.Go(func() {
			for first := 0; first < events; first += 20 {
				var items []settle.Item
				for n := first; n < first+20; n++ {
					id := (n + w*events/4) % events
					items = append(items, Item(fmt.Sprint("e-", id), fmt.Sprint("k-", id)))
				}
				if err := s.apply(t.Context(), store, items); err != nil {
					t.Errorf("apply: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
	eventually(t, "what is left over is taken over", func() (string, bool) {
		due, err := store.Inbox.Due(t.Context(), "g", 100)
		if err == nil {
			err = s.apply(t.Context(), store, due.Items)
		}
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(due.Next), len(due.Items) == 0 && due.Next.IsZero()
	})
	s.onceEach(store, events)
}

func (s *Service) onceEach(store Store, events int) {
	s.Helper()
	distinct := map[string]bool{}
	effects := s.effects()
	for _, id := range effects {
		distinct[id] = true
	}
	done := s.texts(`SELECT message_id FROM t_message_consume_log WHERE status = 'SUCCESS'`)
	var foreign int
	if err := store.DB.QueryRow(`SELECT count(*) FROM t_message_consume_log WHERE status = 'SUCCESS'`).Scan(&foreign); err != nil {
		s.Fatal(err)
	}
	if len(effects) != events || len(distinct) != events || len(done) != events || foreign == 0 {
		s.Errorf("of %d messages there are %d effects of %d, %d are done in the shared log, %d of them by others", events, len(effects), len(distinct), len(done), foreign)
	}
}
