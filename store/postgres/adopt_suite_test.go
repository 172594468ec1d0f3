package postgres_test

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/store/storetest/broken"
)

// notOfAClassicTable are the rules of the suite that can't be asked of a table of
// another owner, into which services insert by SQL of their own.
func notOfAClassicTable() map[string]string {
	return map[string]string{
		"an event id that is in the outbox is refused and leaves nothing of its call": "Append is not there: the owner's unique index refuses the row, and the transaction with it",
		"an event id twice in one call is refused":                                    "Append is not there: the owner's unique index refuses the row, and the transaction with it",
		"an invalid event is refused by field and the transaction goes on":            "Append is not there: what can't be sent is found when it is read, and becomes a dead letter",
		"every field of an event comes back":                                          "the classic table has no column for most of them",
	}
}

func TestAnAdoptedOutboxKeepsEveryRuleOfTheSuiteThatApplies(t *testing.T) {
	storetest.RunOutboxExcept(t, notOfAClassicTable(), classicOutboxes(t, true))
}

func TestAnAdoptedOutboxWhoseStatusIsLeftAloneKeepsEveryRuleOfTheSuiteThatApplies(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("without its status an adopted table is read as one of Settle's own is; set SETTLE_TEST_ALL=1")
	}
	storetest.RunOutboxExcept(t, notOfAClassicTable(), classicOutboxes(t, false))
}

func TestLanesOfAnAdoptedOutboxKeepEveryRuleOfTheSuiteThatApplies(t *testing.T) {
	storetest.RunLanesExcept(t, nil, classicOutboxes(t, true))
}

func TestEveryRuleThatAppliesToAnAdoptedOutboxFailsABrokenStore(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("the same broken stores fail on an outbox of Settle's own; set SETTLE_TEST_ALL=1 for adopted ones")
	}
	except := notOfAClassicTable()
	maps.Copy(except, map[string]string{
		"what a slow destination has not read is not deleted": "a checkpoint that says otherwise does no harm: only rows whose status says SENT are deleted",
		"a cold hole that is filled late is listed once":      "one that stays listed does no harm: a row whose status says SENT is not read again",
	})
	broken.RunOutboxExcept(t, except, classicOutboxes(t, true))
}

// The payload's type is the one that keeps any bytes.
const classicBytes = `CREATE TABLE t_outbox_event (id BIGSERIAL PRIMARY KEY, event_id VARCHAR(64) NOT NULL UNIQUE, aggregate_type VARCHAR(64) NOT NULL, aggregate_id VARCHAR(64) NOT NULL,
 event_type VARCHAR(64) NOT NULL, payload BYTEA NOT NULL, headers JSONB, status VARCHAR(16) NOT NULL, retry_count INT NOT NULL DEFAULT 0,
 next_retry_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, last_error TEXT, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE INDEX idx_outbox_status_retry ON t_outbox_event (status, next_retry_time, id)`

// classicOutboxes returns what opens, for each case, an adopted table with
// nothing in it. Schemas are lent as to the other suites, each with the table
// that was adopted into it.
func classicOutboxes(suite testing.TB, project bool) func(testing.TB) outboxStore {
	schemas := postgres.NewSchemasForTest(suite)
	var mu sync.Mutex
	tables := map[string]string{}
	return func(t testing.TB) outboxStore {
		at := schemas.Take(t)
		mu.Lock()
		table := tables[at]
		mu.Unlock()
		if table == "" {
			table = adoptedFor(t, suite, at, project)
			mu.Lock()
			tables[at] = table
			mu.Unlock()
		}
		return openClassicOutbox(t, at+"&synchronous_commit=off", table)
	}
}

// adoptedFor makes a service's table in a schema of its own, which is dropped
// with the suite, and adopts it.
func adoptedFor(t, suite testing.TB, at string, project bool) (table string) {
	own := postgres.DatabaseForTest(suite)
	u, err := url.Parse(own)
	if err != nil {
		t.Fatal(err)
	}
	schema := u.Query().Get("search_path")
	conn, err := pgx.Connect(context.Background(), own)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.PgConn().Exec(context.Background(), "CREATE SCHEMA "+schema+";"+classicBytes).ReadAll(); err != nil {
		t.Fatal(err)
	}
	table = schema + ".t_outbox_event"
	a, err := postgres.NewAdopt(at, migrate.AdoptConfig{
		Table: table, Zone: "UTC", Payload: migrate.PayloadBody, Project: &project, Status: map[string][]string{migrate.StatusRetry: {"RETRY"}, migrate.StatusDead: {"DEAD"}},
		TopicOf: map[string]string{"slow": "slow", "elsewhere": "elsewhere", `a "quoted" topic`: `a "quoted" topic`},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return table
}

func openClassicOutbox(t testing.TB, at, table string) outboxStore {
	s, o := openOutboxOf(t, at, table)
	if _, err := s.DB().Exec("UPDATE settle_adoption SET foreign_id = 0, foreign_rows = 0, foreign_seen_at = NULL"); err != nil {
		t.Fatal(err)
	}
	if err := o.Empty(context.Background()); err != nil {
		t.Fatal(err)
	}
	p := classicProducer{table: table, now: o.Now}
	o.Outbox = p
	o.Insert = func(ctx context.Context, id int64, e *settle.Event) error {
		_, err := s.DB().ExecContext(ctx, p.insert("id, ", "$7::bigint,"), append(p.values(e), id)...)
		return err
	}
	return o
}

// classicProducer inserts as a service does that knows nothing of Settle. Its
// clock is the service's own. What topic an event is for it says by its type of
// aggregate.
type classicProducer struct {
	table string
	now   func() time.Time
}

func (p classicProducer) Append(ctx context.Context, tx *sql.Tx, events ...*settle.Event) error {
	for _, e := range events {
		if _, err := tx.ExecContext(ctx, p.insert("", ""), p.values(e)...); err != nil {
			return err
		}
	}
	return nil
}

func (p classicProducer) insert(column, value string) string {
	return "INSERT INTO " + p.table + " (" + column + "event_id, aggregate_type, aggregate_id, event_type, payload, status, created_at, updated_at, next_retry_time) SELECT " + value +
		" $1, $2, $3, $4, $5, 'PENDING', t, t, t FROM (SELECT $6::timestamptz AT TIME ZONE 'UTC' AS t) now"
}

func (p classicProducer) values(e *settle.Event) []any {
	return []any{cmp.Or(e.ID, settle.NewID()), cmp.Or(e.Topic, e.AggregateType), e.AggregateID, e.Type, e.Payload, p.now()}
}
