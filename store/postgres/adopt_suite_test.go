package postgres_test

import (
	"context"
	"maps"
	"net/url"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/store/storetest/adopted"
	"github.com/settlemq/settle/store/storetest/broken"
)

func TestAnAdoptedOutboxKeepsEveryRuleOfTheSuiteThatApplies(t *testing.T) {
	storetest.RunOutboxExcept(t, adopted.NotOfAClassicTable(), classicOutboxes(t, true))
}

func TestAnAdoptedOutboxWhoseStatusIsLeftAloneKeepsEveryRuleOfTheSuiteThatApplies(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("without its status an adopted table is read as one of Settle's own is; set SETTLE_TEST_ALL=1")
	}
	storetest.RunOutboxExcept(t, adopted.NotOfAClassicTable(), classicOutboxes(t, false))
}

func TestLanesOfAnAdoptedOutboxKeepEveryRuleOfTheSuiteThatApplies(t *testing.T) {
	storetest.RunLanesExcept(t, nil, classicOutboxes(t, true))
}

func TestEveryRuleThatAppliesToAnAdoptedOutboxFailsABrokenStore(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("the same broken stores fail on an outbox of Settle's own; set SETTLE_TEST_ALL=1 for adopted ones")
	}
	except := adopted.NotOfAClassicTable()
	maps.Copy(except, adopted.HarmlessInAClassicTable())
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
	p := adopted.Producer{Dialect: adopted.Dialect{Dollars: true}, Table: table, Now: o.Now}
	o.Outbox = p
	o.Insert = func(ctx context.Context, id int64, e *settle.Event) error { return p.InsertAt(ctx, s.DB(), id, e) }
	return o
}
