package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/postgres"
)

// crowd are people who act on every dead letter they see, several at once and
// each of them again and again, while relay and consumer run. The first act on
// each is a replay before the repair, so that it dies again.
type crowd struct {
	*testing.T
	g        *postgres.Governance
	repaired atomic.Bool
	replays  atomic.Int64
	discards atomic.Int64
	givenUp  atomic.Int64
}

func (p *crowd) act(ctx context.Context, who int, done func() bool) {
	for n := who; !done() && ctx.Err() == nil; n++ {
		letters, err := p.g.DeadLetters(ctx, govern.Filter{State: "any"})
		if err != nil {
			p.Error(err)
			return
		}
		for _, l := range letters {
			if l.State == govern.StateReplayed || l.State == govern.StateDiscarded || l.State == govern.StateCompensated {
				continue
			}
			a := govern.Act{By: fmt.Sprint("person ", who), Reason: "a test"}
			var out []govern.Outcome
			switch way := (n + int(l.ID)) % 5; {
			case way == 0 && p.replays.Load() > 20:
				out, err = p.g.Discard(ctx, a, l.ID)
				p.count(&p.discards, out)
			case way == 1 && p.replays.Load() > 10:
				out, err = p.g.Compensate(ctx, a, l.ID)
				p.count(&p.givenUp, out)
			default:
				out, err = p.g.Replay(ctx, a, govern.ReplayOptions{}, l.ID)
				p.count(&p.replays, out)
			}
			if err != nil || len(out) != 1 {
				p.Errorf("act on %d: %v, %v", l.ID, out, err)
				return
			}
		}
		if p.replays.Load() > 60 {
			p.repaired.Store(true)
		}
	}
}

func (p *crowd) count(n *atomic.Int64, out []govern.Outcome) {
	if len(out) == 1 && out[0].Result == "done" {
		n.Add(1)
	}
}

const racingKeys, racingEvents = 8, 5

// race runs the services and four people until done.
func race(t *testing.T, s *postgres.Store, p *crowd, done func() bool, services ...func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var running, acting sync.WaitGroup
	for _, run := range services {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for who := range 4 {
		acting.Go(func() { p.act(ctx, who, done) })
	}
	acting.Wait()
	if ctx.Err() != nil {
		t.Error("what people act on is never done")
	}
	cancel()
	running.Wait()
	entries, err := s.Governance().Audit(t.Context(), 0, 10000)
	if want := p.replays.Load() + p.discards.Load() + p.givenUp.Load(); err != nil || int64(len(entries)) != want {
		t.Errorf("%d acts are audited and %d were done, %v", len(entries), want, err)
	}
	if p.discards.Load() == 0 || p.replays.Load() == 0 {
		t.Errorf("%d replays, %d discards: nothing raced", p.replays.Load(), p.discards.Load())
	}
}

func openRace(t *testing.T) (*postgres.Store, *memory.Broker) {
	t.Helper()
	s := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{})
	broker := memory.New(memory.Config{})
	t.Cleanup(func() { _ = broker.Close() })
	tx, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.ExecContext(t.Context(), `CREATE TABLE effect (event_id text NOT NULL); CREATE TABLE undone (event_id text NOT NULL)`)
	for n := range racingKeys * racingEvents {
		e := &settle.Event{ID: fmt.Sprintf("e%02d", n), Type: "x", AggregateID: fmt.Sprint("k", n%racingKeys), Payload: []byte(`{}`)}
		err = errors.Join(err, s.Append(t.Context(), tx, e))
	}
	if err := errors.Join(err, tx.Commit()); err != nil {
		t.Fatal(err)
	}
	return s, broker
}

// countOf is a query of one number.
func countOf(t *testing.T, s *postgres.Store, query string) (n int) {
	t.Helper()
	if err := s.Reader().QueryRow(query).Scan(&n); err != nil {
		t.Error(err)
	}
	return n
}

// strict refuses the first event of each key until the people have repaired
// what was wrong.
type strict struct {
	*memory.Broker
	p *crowd
}

func (b strict) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	receipts := make([]settle.Receipt, len(batch))
	refused := map[string]bool{}
	for i, m := range batch {
		if refused[m.Event.Key()] || m.Event.ID < fmt.Sprintf("e%02d", racingKeys) && !b.p.repaired.Load() {
			refused[m.Event.Key()] = true
			receipts[i].Err = &settle.PublishError{Scope: settle.ScopeRecord, Err: errors.New("refused")}
			continue
		}
		receipts[i] = b.Broker.Publish(ctx, []settle.Message{m})[0]
	}
	return receipts
}

func TestRelayLettersAreSentOrDiscardedWhateverSeveralPeopleDoWhileItRuns(t *testing.T) {
	s, broker := openRace(t)
	p := &crowd{T: t, g: s.Governance()}
	r := relay.New(s.Log(), strict{broker, p}, relay.Config{Retry: settle.Backoff{Attempts: 1}})
	done := func() bool {
		return countOf(t, s, `SELECT count(*) FROM v_outbox_event WHERE status IN ('SENT', 'DISCARDED')`) == racingKeys*racingEvents
	}
	race(t, s, p, done, r.Run)
	sent := map[string]int{}
	last := map[string]string{}
	for _, rec := range broker.Log(settle.DefaultTopic) {
		e := rec.Event
		sent[e.ID]++
		if e.ID < last[e.Key()] {
			t.Errorf("%s of key %s was sent after %s", e.ID, e.Key(), last[e.Key()])
		}
		last[e.Key()] = e.ID
	}
	for status, ids := range statuses(t, s) {
		for _, id := range ids {
			if status == "SENT" && sent[id] == 0 || status == "DISCARDED" && sent[id] != 0 {
				t.Errorf("%s is %s and was sent %d times", id, status, sent[id])
			}
		}
	}
	if n := countOf(t, s, `SELECT (SELECT count(*) FROM t_outbox_parked) + (SELECT count(*) FROM t_dead_letter WHERE state IN ('OPEN', 'REPLAYING'))`); n != 0 {
		t.Errorf("%d rows wait for nobody", n)
	}
}

func TestConsumerLettersAreAppliedOnceCompensatedOnceOrDiscardedWhateverSeveralPeopleDoWhileItRuns(t *testing.T) {
	s, broker := openRace(t)
	p := &crowd{T: t, g: s.Governance()}
	r := relay.New(s.Log(), broker, relay.Config{})
	c := consumer.New("g", broker, s.Inbox(), consumer.Config{Topics: []string{settle.DefaultTopic}, RetryPoll: 5 * time.Millisecond, Retry: settle.Backoff{Attempts: 1}})
	c.Handle("x", func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
		if e.ID < fmt.Sprintf("e%02d", racingKeys) && !p.repaired.Load() {
			return errors.New("not repaired")
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO effect VALUES ($1)`, e.ID)
		return err
	})
	c.Compensate("x", func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
		if !p.repaired.Load() && e.ID < "e04" {
			return errors.New("not repaired")
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO undone VALUES ($1)`, e.ID)
		return err
	})
	done := func() bool {
		return countOf(t, s, `SELECT count(*) FROM t_message_consume_log WHERE consumer_group = 'g' AND status IN ('APPLIED', 'COMPENSATED', 'DISCARDED')`) == racingKeys*racingEvents
	}
	race(t, s, p, done, r.Run, c.Run)
	if p.givenUp.Load() == 0 {
		t.Error("nothing was compensated")
	}
	if n := countOf(t, s, `SELECT count(*) FROM t_message_consume_log l WHERE (SELECT count(*) FROM undone u WHERE u.event_id = l.event_id) <> (l.status = 'COMPENSATED')::integer`); n != 0 {
		t.Errorf("%d events were compensated another number of times than their log says", n)
	}
	if n := countOf(t, s, `SELECT count(*) FROM t_message_consume_log l WHERE (SELECT count(*) FROM effect f WHERE f.event_id = l.event_id) <> (l.status = 'APPLIED')::integer`); n != 0 {
		t.Errorf("%d events have another number of effects than their log says", n)
	}
	if n := countOf(t, s, `SELECT (SELECT count(*) FROM t_consume_retry) + (SELECT count(*) FROM t_dead_letter WHERE state IN ('OPEN', 'REPLAYING', 'COMPENSATING'))`); n != 0 {
		t.Errorf("%d rows wait for nobody", n)
	}
}

// statuses returns the event ids by status, as people see them.
func statuses(t *testing.T, s *postgres.Store) map[string][]string {
	t.Helper()
	rows, err := s.Reader().QueryContext(t.Context(), `SELECT status, event_id FROM v_outbox_event`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	by := map[string][]string{}
	for rows.Next() {
		var status, id string
		if err := rows.Scan(&status, &id); err != nil {
			t.Fatal(err)
		}
		by[status] = append(by[status], id)
	}
	return by
}
