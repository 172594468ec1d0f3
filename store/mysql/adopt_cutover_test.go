package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
)

// oldRelay is a classic one at its best: it claims rows with SKIP LOCKED, sends
// them and marks them, in one transaction.
func (c *classic) oldRelay(b *memory.Broker) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := sendOld(c.db, b); err != nil && !deadlock(err) {
				done <- err
				return
			}
		}
		done <- nil
	}()
	return func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Errorf("the old relay: %v", err)
		}
	}
}

// deadlock is what a program of this server tries again.
func deadlock(err error) bool {
	var e *driver.MySQLError
	return errors.As(err, &e) && (e.Number == 1213 || e.Number == 1205)
}

func sendOld(db *sql.DB, b *memory.Broker) error {
	ctx := context.Background()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	rows, err := tx.QueryContext(ctx, `SELECT id, event_id, aggregate_id, payload FROM t_outbox_event WHERE status = 'PENDING' AND next_retry_time <= CURRENT_TIMESTAMP
ORDER BY id LIMIT 20 FOR UPDATE SKIP LOCKED`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	var taken []string
	for rows.Next() {
		var id, event, key, payload string
		if err := rows.Scan(&id, &event, &key, &payload); err != nil {
			return err
		}
		taken = append(taken, id)
		if err := b.PublishRaw(settle.DefaultTopic, key, []byte(payload), nil); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(taken) > 0 {
		if _, err := tx.ExecContext(ctx, `UPDATE t_outbox_event SET status = 'SENT', updated_at = CURRENT_TIMESTAMP WHERE id IN (`+strings.Join(taken, ",")+`)`); err != nil {
			return err
		}
	}
	time.Sleep(2 * time.Millisecond)
	return tx.Commit()
}

// produce inserts events, one transaction each, some of which stay open for a
// while or are rolled back, until it is stopped. It tells how many were kept.
func (c *classic) produce() (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	var kept atomic.Int64
	done := make(chan error, 4)
	for w := range 4 {
		go func() {
			for n := 0; ctx.Err() == nil; n++ {
				committed, err := produceOne(c.db, w, n)
				if err != nil {
					done <- err
					return
				}
				if committed {
					kept.Add(1)
				}
				time.Sleep(time.Millisecond)
			}
			done <- nil
		}()
	}
	return func() int {
		cancel()
		for range 4 {
			if err := <-done; err != nil {
				c.t.Errorf("a producer: %v", err)
			}
		}
		return int(kept.Load())
	}
}

func produceOne(db *sql.DB, w, n int) (committed bool, err error) {
	ctx := context.Background()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, fmt.Sprintf(`INSERT INTO t_outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, status)
VALUES ('w-%[1]d-%[2]d', 'order', 'w-%[1]d', 'x', '{"eventId": "w-%[1]d-%[2]d", "eventType": "x", "aggregateId": "w-%[1]d", "payload": {"n": %[2]d}}', 'PENDING')`, w, n))
	switch {
	case err != nil || n%7 == 3:
		return false, err
	case n%50 == 10:
		time.Sleep(150 * time.Millisecond)
	}
	return true, tx.Commit()
}

func TestUnderLoadSettleTakesOverFromAClassicRelayAndGivesBackAndNothingIsLost(t *testing.T) {
	c := newClassic(t, classicTable)
	b := newMemory(t)
	stopProducers := c.produce()
	grows := func(by int) {
		from := len(b.Log(settle.DefaultTopic))
		eventually(t, "events flow", func() (string, bool) { return "", len(b.Log(settle.DefaultTopic)) >= from+by })
	}
	stopOld := c.oldRelay(b)
	grows(200)
	stopOld()
	c.adopt(migrate.AdoptConfig{})
	r := c.relay(b, relay.Config{})
	grows(200)
	if _, err := c.tryAdopt(migrate.AdoptConfig{Again: true}); err == nil {
		t.Error("it was begun anew under a relay that leads")
	}
	r.stop()
	stopOld = c.oldRelay(b) // what Settle had in hand is PENDING and is sent
	grows(200)
	stopOld()
	c.adopt(migrate.AdoptConfig{Again: true})
	r = c.relay(b, relay.Config{})
	grows(200)
	kept := stopProducers()
	c.becomes(fmt.Sprint("SENT ", kept))
	r.stop()
	got := map[string]int{}
	for _, m := range b.Log(settle.DefaultTopic) {
		got[m.Event.ID]++
	}
	twice := 0
	for _, n := range got {
		twice += n - 1
	}
	if len(got) != kept {
		t.Errorf("%d of %d events arrived", len(got), kept)
	}
	if twice > 0 {
		t.Errorf("%d events were sent twice although each relay ended cleanly", twice)
	}
}

func TestTwoRelaysAtOnceSendEverythingAndTheOtherOneIsReported(t *testing.T) {
	c := newClassic(t, classicTable)
	b := newMemory(t)
	c.adopt(migrate.AdoptConfig{})
	stopProducers := c.produce()
	stopOld := c.oldRelay(b)
	r := c.relay(b, relay.Config{})
	eventually(t, "the other relay is noticed", func() (string, bool) {
		var n int64
		err := r.store.DB().QueryRowContext(context.Background(), `SELECT foreign_rows FROM settle_adoption`).Scan(&n)
		return fmt.Sprint(n, err), n > 0
	})
	stopOld()
	kept := stopProducers()
	c.becomes(fmt.Sprint("SENT ", kept))
	r.stop()
	got := map[string]bool{}
	for _, m := range b.Log(settle.DefaultTopic) {
		got[m.Event.ID] = true
	}
	if len(got) != kept {
		t.Errorf("%d of %d events arrived", len(got), kept)
	}
}
