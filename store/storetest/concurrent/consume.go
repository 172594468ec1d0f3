package concurrent

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/consumer"
)

// Consumed is what became of events that a consumer has had in hand.
type Consumed struct {
	Stats consumer.Stats
	log   *lines
}

// lines are the log of a consumer.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// ConsumeAll runs a consumer of events a-001 to a-003, b-001 to b-003 and so on
// until every one has taken effect. A handler writes its effect and then does
// what handle says.
func ConsumeAll(t *testing.T, p Process, handle func(ctx context.Context, tx *sql.Tx, e *settle.Event) error) Consumed {
	t.Helper()
	const keys, each = 3, 3
	var events []*settle.Event
	for n := 1; n <= each; n++ {
		for k := range keys {
			events = append(events, Item(string(rune('a'+k)), n).Record.Event)
		}
	}
	r := p.consume(t, events, consumer.Config{}, 0, keys*each, func(c *consumer.Consumer[*sql.Tx]) {
		c.Handle("x", func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
			if err := p.WriteEffect(ctx, tx, e.ID); err != nil {
				return err
			}
			return handle(ctx, tx, e)
		})
	}, func(s consumer.Stats) int { return int(s.Applied) })
	// A connection that the server has ended while it was idle says so at its
	// next use.
	for range 16 {
		_ = p.Reader.PingContext(t.Context())
	}
	WantOnceInOrder(t, p.Reader, keys*each)
	return r
}

// consume runs a consumer of group g, which gives an event up after so many
// attempts (0: the usual), until count has come to want.
func (p *Process) consume(t *testing.T, events []*settle.Event, cfg consumer.Config, attempts, want int, handlers func(*consumer.Consumer[*sql.Tx]), count func(consumer.Stats) int) Consumed {
	t.Helper()
	broker := memory.New(memory.Config{})
	defer func() { _ = broker.Close() }()
	var batch []settle.Message
	for i, e := range events {
		e.Topic = settle.DefaultTopic
		batch = append(batch, settle.Message{Event: e, ID: fmt.Sprint(e.ID, " ", i)}) // one may come twice
	}
	for _, r := range broker.Publish(t.Context(), batch) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	r := Consumed{log: &lines{}}
	cfg.RetryPoll, cfg.StoreWait, cfg.MaxStoreWait = 20*time.Millisecond, 10*time.Millisecond, 50*time.Millisecond
	cfg.Retry, cfg.HandlerTimeout, cfg.Logger = settle.Backoff{Base: time.Millisecond, Attempts: attempts}, 2*time.Second, slog.New(slog.NewTextHandler(r.log, nil))
	c := consumer.New("g", broker, p.Inbox, cfg)
	handlers(c)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for count(c.Stats()) < want && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	if ctx.Err() != nil {
		t.Errorf("%+v\n%s", c.Stats(), r.log)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	r.Stats = c.Stats()
	return r
}

// Changes is how often the log says that the store went down, and up again.
func (r Consumed) Changes() (down, up int) {
	text := r.log.String()
	return strings.Count(text, "state=store now=down"), strings.Count(text, "state=store now=up")
}

// NobodysFault checks that nothing was counted as an attempt, and that the log
// has a line for each change of state.
func (r Consumed) NobodysFault(t *testing.T, p Process) {
	t.Helper()
	parked, dead := p.count(t, `SELECT count(*) FROM t_consume_retry`), p.count(t, `SELECT count(*) FROM t_dead_letter`)
	if r.Stats.Failed != 0 || parked+dead != 0 {
		t.Errorf("%d attempts have failed, %d events wait, %d are dead; want none", r.Stats.Failed, parked, dead)
	}
	if down, up := r.Changes(); down != up {
		t.Errorf("the store went down %d times and up %d times:\n%s", down, up, r.log)
	}
}

// ServerFaults checks that what our own database can't do costs no event an
// attempt. The statements fail, by the name of what they say, as a server does.
func ServerFaults(t *testing.T, open Open, statements map[string]string) {
	for name, statement := range statements {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := processes(t, open, 1)[0]
			var left atomic.Int32
			left.Store(5)
			ConsumeAll(t, p, func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
				if e.AggregateSeq != 2 || left.Add(-1) < 0 {
					return nil
				}
				_, err := tx.ExecContext(ctx, statement)
				return fmt.Errorf("handle: %w", err)
			}).NobodysFault(t, p)
		})
	}
}

// HandlerFault is what a handler does to its own transaction, and what the cause
// says then.
type HandlerFault struct {
	Do    func(ctx context.Context, tx *sql.Tx) error
	Cause string
}

// HandlerFaults checks that what a handler does to its own transaction is an
// attempt, and that the cause says what it was.
func HandlerFaults(t *testing.T, open Open, faults map[string]HandlerFault) {
	for name, c := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := processes(t, open, 1)[0]
			why := "" // written by the one transaction at a time
			r := ConsumeAll(t, p, func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
				if e.ID != "b-003" {
					return nil
				}
				err := p.DB.QueryRowContext(ctx, `SELECT coalesce(max(cause), '') FROM t_consume_retry`).Scan(&why)
				if err != nil || why != "" {
					return err
				}
				return c.Do(ctx, tx)
			})
			if r.Stats.Failed != 1 || !strings.Contains(why, c.Cause) {
				t.Errorf("%d attempts failed, want one, because of %q; the row says %q", r.Stats.Failed, c.Cause, why)
			}
			if down, _ := r.Changes(); down != 0 {
				t.Errorf("the store is called down:\n%s", r.log)
			}
		})
	}
}
