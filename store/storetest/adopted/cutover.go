package adopted

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
)

// oldRelay is a classic one at its best: it claims rows with SKIP LOCKED, sends
// them and marks them, in one transaction.
func (s *Service) oldRelay(b *memory.Broker) (stop func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := s.sendOld(b); err != nil && (s.Again == nil || !s.Again(err)) {
				done <- err
				return
			}
		}
		done <- nil
	}()
	return func() {
		cancel()
		if err := <-done; err != nil {
			s.Errorf("the old relay: %v", err)
		}
	}
}

const claimOld = `SELECT id, event_id, aggregate_id, payload FROM t_outbox_event WHERE status = 'PENDING' AND next_retry_time <= CURRENT_TIMESTAMP
ORDER BY id LIMIT 20 FOR UPDATE SKIP LOCKED`

func (s *Service) sendOld(b *memory.Broker) error {
	ctx := context.Background()
	tx, err := s.DB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	rows, err := tx.QueryContext(ctx, claimOld)
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
func (s *Service) produce() (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	var kept atomic.Int64
	done := make(chan error, 4)
	for w := range 4 {
		go func() {
			for n := 0; ctx.Err() == nil; n++ {
				committed, err := s.produceOne(w, n)
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
				s.Errorf("a producer: %v", err)
			}
		}
		return int(kept.Load())
	}
}

func (s *Service) produceOne(w, n int) (committed bool, err error) {
	ctx := context.Background()
	tx, err := s.DB.BeginTx(ctx, nil)
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

// TakesOver checks that under load Settle takes over from a classic relay and
// gives back, and nothing is lost.
func TakesOver(t *testing.T, open Open) {
	s := classic(t, open)
	b := newMemory(t)
	stopProducers := s.produce()
	grows := func(by int) {
		from := len(b.Log(settle.DefaultTopic))
		eventually(t, "events flow", func() (string, bool) { return "", len(b.Log(settle.DefaultTopic)) >= from+by })
	}
	stopOld := s.oldRelay(b)
	grows(200)
	stopOld()
	s.adopt(migrate.AdoptConfig{})
	r := s.relay(b, relay.Config{})
	grows(200)
	if _, err := s.tryAdopt(migrate.AdoptConfig{Again: true}); err == nil {
		t.Error("it was begun anew under a relay that leads")
	}
	r.stop()
	stopOld = s.oldRelay(b) // what Settle had in hand is PENDING and is sent
	grows(200)
	stopOld()
	s.adopt(migrate.AdoptConfig{Again: true})
	r = s.relay(b, relay.Config{})
	grows(200)
	kept := stopProducers()
	s.becomes(fmt.Sprint("SENT ", kept))
	r.stop()
	distinct, all := arrived(b)
	if distinct != kept {
		t.Errorf("%d of %d events arrived", distinct, kept)
	}
	if all > distinct {
		t.Errorf("%d events were sent twice although each relay ended cleanly", all-distinct)
	}
}

// arrived counts the events that a broker has, and the records.
func arrived(b *memory.Broker) (distinct, all int) {
	got := map[string]bool{}
	log := b.Log(settle.DefaultTopic)
	for _, m := range log {
		got[m.Event.ID] = true
	}
	return len(got), len(log)
}

// TwoAtOnce checks that two relays at once send everything, and that the other
// one is reported.
func TwoAtOnce(t *testing.T, open Open) {
	s := classic(t, open)
	b := newMemory(t)
	s.adopt(migrate.AdoptConfig{})
	stopProducers := s.produce()
	stopOld := s.oldRelay(b)
	r := s.relay(b, relay.Config{})
	r.notices(-1)
	stopOld()
	kept := stopProducers()
	s.becomes(fmt.Sprint("SENT ", kept))
	r.stop()
	if distinct, _ := arrived(b); distinct != kept {
		t.Errorf("%d of %d events arrived", distinct, kept)
	}
}
