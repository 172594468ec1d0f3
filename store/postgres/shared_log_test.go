package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest"
)

// classicConsumeLog is the consume log that tutorials teach and services have.
const classicConsumeLog = `CREATE TABLE t_message_consume_log (id BIGSERIAL PRIMARY KEY, consumer_group VARCHAR(128) NOT NULL, message_id VARCHAR(64) NOT NULL, biz_key VARCHAR(64),
 status VARCHAR(16) NOT NULL, consumed_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE (consumer_group, message_id));
CREATE TABLE t_effect (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, row_id text NOT NULL)`

// newSharedLog makes a service with a consume log and no outbox, and adopts it.
func newSharedLog(t testing.TB, zone string) *classic {
	c := newClassic(t, classicConsumeLog)
	a, err := postgres.NewAdopt(c.at, migrate.AdoptConfig{ConsumeLog: c.schema + ".t_message_consume_log", Zone: zone})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := a.Run(t.Context()); err != nil || p.ConsumeLog == "" || p.Table != "" {
		t.Fatalf("adopting the consume log: %v, %+v", err, p)
	}
	return c
}

// foreign is how a row of the shared log stands.
func (c *classic) logged(id string) string {
	c.t.Helper()
	var s string
	if err := c.conn.QueryRow(context.Background(), `SELECT coalesce((SELECT status FROM t_message_consume_log WHERE consumer_group = 'g' AND message_id = $1), '')`, id).Scan(&s); err != nil {
		c.t.Fatal(err)
	}
	return s
}

func (c *classic) effect(ctx context.Context, tx *sql.Tx, id string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO `+c.schema+`.t_effect (row_id) VALUES ($1)`, id)
	return err
}

func sharedItem(id, key string) settle.Item {
	return settle.Item{Attempt: 1, Record: settle.Record{Event: &settle.Event{ID: id, Type: "x", AggregateType: "order", AggregateID: key, AppendedAt: time.Now(), Payload: []byte(`{}`)}}}
}

// apply applies items and returns their verdicts.
func (c *classic) apply(s *postgres.Store, items ...settle.Item) []settle.Verdict {
	c.t.Helper()
	rs, err := s.Inbox().Apply(context.Background(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
		return c.effect(ctx, tx, items[i].Record.Event.ID)
	})
	if err != nil {
		c.t.Fatal(err)
	}
	var vs []settle.Verdict
	for _, r := range rs {
		vs = append(vs, r.Verdict)
	}
	return vs
}

func TestInboxBesideForeignConsumers(t *testing.T) {
	storetest.RunInbox(t, func(t testing.TB) storetest.InboxStore[*sql.Tx] {
		c := newSharedLog(t, "Asia/Shanghai")
		is := openInboxAt(t, c.at)
		is.LeaveOver = func(ctx context.Context, group, eventID, status string, at time.Time) error {
			_, err := c.conn.Exec(ctx, `INSERT INTO t_message_consume_log (consumer_group, message_id, status, consumed_at) VALUES ($1,$2,$3,$4::timestamptz AT TIME ZONE 'Asia/Shanghai')`, group, eventID, status, at)
			return err
		}
		is.Inbox = ownerForgets{is.Inbox, c}
		return is
	})
}

// ownerForgets is an inbox beside which the owner of the shared log deletes what
// is old as well: Settle never does, and so would know it longer.
type ownerForgets struct {
	settle.Inbox[*sql.Tx]
	c *classic
}

func (o ownerForgets) Forget(ctx context.Context, group string, before time.Time, limit int) (int, error) {
	n, err := o.Inbox.Forget(ctx, group, before, limit)
	if err == nil {
		_, err = o.c.conn.Exec(ctx, `DELETE FROM t_message_consume_log f WHERE NOT EXISTS (SELECT 1 FROM `+schemaOf(o.c.t, o.c.at)+`.t_message_consume_log l WHERE l.consumer_group = f.consumer_group AND l.event_id = f.message_id)`)
	}
	return n, err
}

func TestWhatAForeignConsumerHasDoneIsADuplicateAndWhatItHasBegunWaitsFifteenMinutesByTheClock(t *testing.T) {
	c := newSharedLog(t, "Asia/Shanghai")
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	s := postgres.OpenForTest(t, c.at, postgres.Config{Clock: clock})
	begun := `INSERT INTO t_message_consume_log (consumer_group, message_id, status, consumed_at) VALUES ('g', $1, $2, '2026-03-04 13:06:07')`
	c.exec(begun, "done", "SUCCESS")
	c.exec(begun, "begun", "PROCESSING")
	c.exec(begun, "failed", "FAILED")
	got := c.apply(s, sharedItem("done", "a"), sharedItem("begun", "b"), sharedItem("failed", "c"), sharedItem("new", "d"))
	want := []settle.Verdict{settle.VerdictDuplicate, settle.VerdictLeftOver, settle.VerdictLeftOver, settle.VerdictApplied}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("verdicts are %v, want %v", got, want)
	}
	for id, want := range map[string]string{"done": "SUCCESS", "begun": "PROCESSING", "failed": "FAILED", "new": "SUCCESS"} {
		if got := c.logged(id); got != want {
			t.Errorf("%s is %s in the shared log, want %s", id, got, want)
		}
	}
	retry := func() []settle.Verdict {
		due, err := s.Inbox().Due(t.Context(), "g", 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(due.Items) == 0 {
			return nil
		}
		return c.apply(s, due.Items...)
	}
	mu.Lock()
	now = now.Add(14 * time.Minute)
	mu.Unlock()
	if got := retry(); got != nil {
		t.Errorf("after 14 minutes what is left over is %v", got)
	}
	// The foreign consumer of one of them is alive, and ends.
	c.exec(`UPDATE t_message_consume_log SET status = 'SUCCESS' WHERE message_id = 'failed'`)
	mu.Lock()
	now = now.Add(2 * time.Minute)
	mu.Unlock()
	if got := retry(); len(got) != 2 || got[0]+got[1] != settle.VerdictApplied+settle.VerdictDuplicate {
		t.Errorf("after 16 minutes what is left over is %v", got)
	}
	var effects, at string
	if err := c.conn.QueryRow(t.Context(), `SELECT string_agg(row_id, ',' ORDER BY id), (SELECT consumed_at::text FROM t_message_consume_log WHERE message_id = 'begun') FROM t_effect`).Scan(&effects, &at); err != nil {
		t.Fatal(err)
	}
	if effects != "new,begun" || at != "2026-03-04 13:22:07" || c.logged("begun") != "SUCCESS" {
		t.Errorf("effects are %s; the one taken over is %s at %s", effects, c.logged("begun"), at)
	}
}

func TestWhatIsKeptWaitingIsInHandForForeignConsumersAndADiscardedOneIsDone(t *testing.T) {
	c := newSharedLog(t, "UTC")
	s := postgres.OpenForTest(t, c.at, postgres.Config{})
	parked, dead := sharedItem("parked", "a"), sharedItem("dead", "b")
	parked.Intent, parked.Class, parked.NextAt = settle.IntentPark, settle.ClassHandler, time.Now().Add(-time.Minute)
	dead.Intent, dead.Class = settle.IntentDie, settle.ClassPermanent
	c.apply(s, parked, dead, sharedItem("behind", "b"))
	for _, id := range []string{"parked", "dead", "behind"} {
		if got := c.logged(id); got != "PROCESSING" {
			t.Errorf("%s is %q in the shared log", id, got)
		}
	}
	// Another one takes it over by a time of its own, and is at work.
	c.exec(`UPDATE t_message_consume_log SET consumed_at = clock_timestamp() AT TIME ZONE 'UTC' + interval '5 s' WHERE message_id = 'parked'`)
	due, err := s.Inbox().Due(t.Context(), "g", 10)
	if err != nil || len(due.Items) != 1 {
		t.Fatalf("due are %v, %v", due.Items, err)
	}
	if got := c.apply(s, due.Items...); got[0] != settle.VerdictLeftOver {
		t.Errorf("what a foreign consumer has taken over is %v", got)
	}
	var id int64
	if err := s.DB().QueryRowContext(t.Context(), `SELECT id FROM t_dead_letter WHERE event_id = 'dead'`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Governance().Discard(t.Context(), govern.Act{By: "ana", Reason: "a test"}, id); err != nil {
		t.Fatal(err)
	}
	if got := c.logged("dead"); got != "SUCCESS" {
		t.Errorf("a discarded event is %q in the shared log", got)
	}
}

// foreignConsumer works as tutorials say: insert, business, mark, in one
// transaction or two. It dies now and then.
func foreignConsumer(ctx context.Context, conn *pgx.Conn, id string, n int) error {
	begin := func(do func(tx pgx.Tx) error) error { return pgx.BeginFunc(ctx, conn, do) }
	insert := func(tx pgx.Tx) (bool, error) {
		tag, err := tx.Exec(ctx, `INSERT INTO t_message_consume_log (consumer_group, message_id, biz_key, status) VALUES ('g', $1, 'k', 'PROCESSING') ON CONFLICT DO NOTHING`, id)
		return tag.RowsAffected() == 1, err
	}
	business := func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO t_effect (row_id) VALUES ($1)`, id)
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE t_message_consume_log SET status = 'SUCCESS', consumed_at = CURRENT_TIMESTAMP WHERE consumer_group = 'g' AND message_id = $1`, id)
		}
		return err
	}
	if n%2 == 0 {
		err := begin(func(tx pgx.Tx) error {
			mine, err := insert(tx)
			if err == nil && mine {
				err = business(tx)
			}
			if err == nil && n%10 == 4 {
				return errUndo // it dies before its commit
			}
			return err
		})
		if err == errUndo {
			return nil
		}
		return err
	}
	var mine bool
	if err := begin(func(tx pgx.Tx) (err error) { mine, err = insert(tx); return err }); err != nil || !mine || n%10 == 7 {
		return err // or it dies between the two
	}
	return begin(business)
}

func TestForeignConsumersAndSettleHaveEachOfTwoThousandMessagesTakeEffectOnce(t *testing.T) {
	c := newSharedLog(t, "UTC")
	const events = 2000
	s := postgres.OpenForTest(t, c.at, postgres.Config{MaxConns: 8})
	work := func(items []settle.Item) {
		for try := 0; ; try++ {
			rs, err := s.Inbox().Apply(t.Context(), settle.Work{Group: "g", Items: items, TakeoverAfter: 3 * time.Second}, func(ctx context.Context, tx *sql.Tx, i int) error {
				return c.effect(ctx, tx, items[i].Record.Event.ID)
			})
			var left []settle.Item
			for i, r := range rs {
				if !r.Verdict.Durable() {
					left = append(left, items[i])
				}
			}
			if err == nil && len(left) == 0 {
				return
			}
			if err == nil {
				items = left
			} else if try > 50 {
				t.Errorf("apply: %v", err)
				return
			}
		}
	}
	var group sync.WaitGroup
	own := c.conn.Config().ConnString()
	for w := range 2 {
		conn, err := pgx.Connect(t.Context(), own)
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			defer conn.Close(context.Background())
			for n := range events {
				// Some are delivered twice.
				for range 1 + n%3/2 {
					if err := foreignConsumer(t.Context(), conn, fmt.Sprint("e-", (n*7+w*1000)%events), n); err != nil {
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
					id := (n + w*500) % events
					items = append(items, sharedItem(fmt.Sprint("e-", id), fmt.Sprint("k-", id)))
				}
				work(items)
			}
		})
	}
	group.Wait()
	eventually(t, "what is left over is taken over", func() (string, bool) {
		due, err := s.Inbox().Due(t.Context(), "g", 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(due.Items) > 0 {
			work(due.Items)
		}
		return fmt.Sprint(due.Next), len(due.Items) == 0 && due.Next.IsZero()
	})
	var effects, distinct, done, foreign int
	if err := c.conn.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT row_id), (SELECT count(*) FROM t_message_consume_log WHERE status = 'SUCCESS') FROM t_effect`).Scan(&effects, &distinct, &done); err != nil {
		t.Fatal(err)
	}
	if err := s.DB().QueryRow(`SELECT count(*) FROM t_message_consume_log WHERE status = 'SUCCESS'`).Scan(&foreign); err != nil {
		t.Fatal(err)
	}
	if effects != events || distinct != events || done != events || foreign == 0 {
		t.Errorf("of %d messages there are %d effects of %d, %d are done in the shared log, %d of them by others", events, effects, distinct, done, foreign)
	}
}

func TestAConsumeLogThatCanNotBeSharedSaysWhy(t *testing.T) {
	for says, change := range map[string]string{
		"no unique index":     `ALTER TABLE t_message_consume_log DROP CONSTRAINT t_message_consume_log_consumer_group_message_id_key`,
		"say what it means":   `INSERT INTO t_message_consume_log (consumer_group, message_id, status) VALUES ('g', 'x', 'OK')`,
		"must have a value":   `ALTER TABLE t_message_consume_log ADD COLUMN tenant text NOT NULL`,
		"no classic consume":  `ALTER TABLE t_message_consume_log RENAME COLUMN message_id TO msg`,
		"there is no consume": `DROP TABLE t_message_consume_log`,
		"not a timestamp":     `ALTER TABLE t_message_consume_log ALTER COLUMN consumed_at DROP DEFAULT, ALTER COLUMN consumed_at TYPE text`,
	} {
		c := newClassic(t, classicConsumeLog)
		c.exec(change)
		a, err := postgres.NewAdopt(c.at, migrate.AdoptConfig{ConsumeLog: c.schema + ".t_message_consume_log"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("after %s it says %v", change, err)
		}
	}
}

func TestAnOutboxAndAConsumeLogAreAdoptedTogetherAndTheSQLDoesTheSame(t *testing.T) {
	c := newClassic(t, classicTable+";"+classicConsumeLog)
	c.insert(1, 3, "PENDING")
	cfg := migrate.AdoptConfig{Table: c.table(), ConsumeLog: c.schema + ".t_message_consume_log", ConsumeStatus: map[string][]string{migrate.ConsumeSuccess: {"OK"}}}
	a, err := postgres.NewAdopt(c.at, cfg)
	if err != nil {
		t.Fatal(err)
	}
	script, err := a.SQL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(c.at)
	u.RawQuery = ""
	conn, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), script, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	p := c.adopt(cfg)
	if p.ConsumeLog == "" || p.Table == "" || !p.Adopted || len(p.Changes) > 0 {
		t.Errorf("after the SQL the plan is %+v", p)
	}
	s := postgres.OpenForTest(t, c.at, postgres.Config{})
	if got := c.apply(s, sharedItem("e", "k")); got[0] != settle.VerdictApplied || c.logged("e") != "OK" {
		t.Errorf("an event is %v, and %q in the shared log", got, c.logged("e"))
	}
}
