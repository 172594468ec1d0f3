package concurrent

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

// crowd are people who act on every dead letter they see, several at once and
// each of them again and again, while relay and consumer run. The first act on
// each is a replay before the repair, so that it dies again.
type crowd struct {
	*testing.T
	p        Process
	broker   *memory.Broker
	repaired atomic.Bool
	replays  atomic.Int64
	discards atomic.Int64
	givenUp  atomic.Int64
}

const racingKeys, racingEvents = 8, 5

// gather fills an outbox with events of several keys.
func gather(t *testing.T, open Open) *crowd {
	t.Helper()
	p := open(t, 1, Options{})[0]
	broker := memory.New(memory.Config{})
	t.Cleanup(func() { _ = broker.Close() })
	for _, table := range []string{"effect", "undone"} {
		if _, err := p.DB.ExecContext(t.Context(), `CREATE TABLE `+table+` (event_id `+p.Text+` NOT NULL)`); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := p.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range racingKeys * racingEvents {
		e := &settle.Event{ID: fmt.Sprintf("e%02d", n), Type: "x", AggregateID: fmt.Sprint("k", n%racingKeys), Payload: []byte(`{}`)}
		err = errors.Join(err, p.Outbox.Append(t.Context(), tx, e))
	}
	if err := errors.Join(err, tx.Commit()); err != nil {
		t.Fatal(err)
	}
	return &crowd{T: t, p: p, broker: broker}
}

func (c *crowd) act(ctx context.Context, who int, done func() bool) {
	g := c.p.Governance
	for !done() && ctx.Err() == nil {
		letters, err := g.DeadLetters(ctx, govern.Filter{State: "any"})
		if err != nil {
			c.Error(err)
			return
		}
		for _, l := range letters {
			if l.State == govern.StateReplayed || l.State == govern.StateDiscarded || l.State == govern.StateCompensated {
				continue
			}
			a := govern.Act{By: fmt.Sprint("person ", who), Reason: "a test"}
			var out []govern.Outcome
			// By turns they could fall into step with the service, and never be asked for
			// another way while the letter is open.
			switch way := rand.IntN(5); {
			case way == 0 && c.replays.Load() > 20:
				out, err = g.Discard(ctx, a, l.ID)
				tally(&c.discards, out)
			case way == 1 && c.replays.Load() > 10:
				out, err = g.Compensate(ctx, a, l.ID)
				tally(&c.givenUp, out)
			default:
				out, err = g.Replay(ctx, a, govern.ReplayOptions{}, l.ID)
				tally(&c.replays, out)
			}
			if err != nil || len(out) != 1 {
				c.Errorf("act on %d: %v, %v", l.ID, out, err)
				return
			}
		}
		if c.replays.Load() > 60 {
			c.repaired.Store(true)
		}
	}
}

func tally(n *atomic.Int64, out []govern.Outcome) {
	if len(out) == 1 && out[0].Result == "done" {
		n.Add(1)
	}
}

// race runs the services and four people until done.
func (c *crowd) race(done func() bool, services ...func(context.Context) error) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 2*time.Minute)
	defer cancel()
	var running, acting sync.WaitGroup
	for _, run := range services {
		running.Go(func() {
			if err := run(ctx); err != nil {
				c.Error(err)
			}
		})
	}
	for who := range 4 {
		acting.Go(func() { c.act(ctx, who, done) })
	}
	acting.Wait()
	if ctx.Err() != nil {
		c.Error("what people act on is never done")
	}
	cancel()
	running.Wait()
	entries, err := c.p.Governance.Audit(c.Context(), 0, 10000)
	if want := c.replays.Load() + c.discards.Load() + c.givenUp.Load(); err != nil || int64(len(entries)) != want {
		c.Errorf("%d acts are audited and %d were done, %v", len(entries), want, err)
	}
	if c.discards.Load() == 0 || c.replays.Load() == 0 {
		c.Errorf("%d replays, %d discards: nothing raced", c.replays.Load(), c.discards.Load())
	}
}

// strict refuses the first event of each key until the people have repaired
// what was wrong.
type strict struct {
	*memory.Broker
	c *crowd
}

func (b strict) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	receipts := make([]settle.Receipt, len(batch))
	refused := map[string]bool{}
	for i, m := range batch {
		if refused[m.Event.Key()] || m.Event.ID < fmt.Sprintf("e%02d", racingKeys) && !b.c.repaired.Load() {
			refused[m.Event.Key()] = true
			receipts[i].Err = &settle.PublishError{Scope: settle.ScopeRecord, Err: errors.New("refused")}
			continue
		}
		receipts[i] = b.Broker.Publish(ctx, []settle.Message{m})[0]
	}
	return receipts
}

const (
	eventsOf = `SELECT event_id FROM v_outbox_event WHERE status = ?`
	loggedAs = `SELECT event_id FROM t_message_consume_log WHERE status = ? ORDER BY event_id`
)

func (c *crowd) texts(query string, args ...any) []string {
	c.Helper()
	all, err := texts(c.Context(), c.p.Reader, c.p.sql(query), args...)
	if err != nil {
		c.Errorf("%s: %v", query, err)
	}
	return all
}

// RelayLetters lets several people act on dead letters of a relay while it runs.
// Each event is sent, in order, or discarded.
func RelayLetters(t *testing.T, open Open) {
	c := gather(t, open)
	r := relay.New(c.p.Log, strict{c.broker, c}, relay.Config{Retry: settle.Backoff{Attempts: 1}})
	done := func() bool {
		return c.p.count(t, `SELECT count(*) FROM v_outbox_event WHERE status IN ('SENT', 'DISCARDED')`) == racingKeys*racingEvents
	}
	c.race(done, r.Run)
	sent := map[string]int{}
	last := map[string]string{}
	for _, rec := range c.broker.Log(settle.DefaultTopic) {
		e := rec.Event
		sent[e.ID]++
		if e.ID < last[e.Key()] {
			t.Errorf("%s of key %s was sent after %s", e.ID, e.Key(), last[e.Key()])
		}
		last[e.Key()] = e.ID
	}
	for _, id := range c.texts(eventsOf, "SENT") {
		if sent[id] == 0 {
			t.Errorf("%s is shown as sent and was not", id)
		}
	}
	for _, id := range c.texts(eventsOf, "DISCARDED") {
		if sent[id] != 0 {
			t.Errorf("%s was discarded and sent %d times", id, sent[id])
		}
	}
	if n := c.p.count(t, `SELECT (SELECT count(*) FROM t_outbox_parked) + (SELECT count(*) FROM t_dead_letter WHERE state IN ('OPEN', 'REPLAYING'))`); n != 0 {
		t.Errorf("%d rows wait for nobody", n)
	}
}

// writes is a handler that writes its event's id into a table, once the people
// have repaired what is wrong with events below an id.
func (c *crowd) writes(table, below string) func(context.Context, *sql.Tx, *settle.Event) error {
	return func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
		if e.ID < below && !c.repaired.Load() {
			return errors.New("not repaired")
		}
		_, err := tx.ExecContext(ctx, c.p.sql(`INSERT INTO `+table+` VALUES (?)`), e.ID)
		return err
	}
}

// ConsumerLetters lets several people act on dead letters of a consumer while it
// runs. Each event is applied once, compensated once or discarded.
func ConsumerLetters(t *testing.T, open Open) {
	c := gather(t, open)
	r := relay.New(c.p.Log, c.broker, relay.Config{})
	group := consumer.New("g", c.broker, c.p.Inbox, consumer.Config{Topics: []string{settle.DefaultTopic}, RetryPoll: 5 * time.Millisecond, Retry: settle.Backoff{Attempts: 1}})
	group.Handle("x", c.writes("effect", fmt.Sprintf("e%02d", racingKeys)))
	group.Compensate("x", c.writes("undone", "e04"))
	done := func() bool {
		return c.p.count(t, `SELECT count(*) FROM t_message_consume_log WHERE consumer_group = 'g' AND status IN ('APPLIED', 'COMPENSATED', 'DISCARDED')`) == racingKeys*racingEvents
	}
	c.race(done, r.Run, group.Run)
	if c.givenUp.Load() == 0 {
		t.Error("nothing was compensated")
	}
	for table, status := range map[string]string{"undone": "COMPENSATED", "effect": "APPLIED"} {
		// The same ids, each once.
		if got, want := c.texts(`SELECT event_id FROM `+table+` ORDER BY event_id`), c.texts(loggedAs, status); !slices.Equal(got, want) {
			t.Errorf("in %s are %v, and the log says %s of %v", table, got, status, want)
		}
	}
	if n := c.p.count(t, `SELECT (SELECT count(*) FROM t_consume_retry) + (SELECT count(*) FROM t_dead_letter WHERE state IN ('OPEN', 'REPLAYING', 'COMPENSATING'))`); n != 0 {
		t.Errorf("%d rows wait for nobody", n)
	}
}
