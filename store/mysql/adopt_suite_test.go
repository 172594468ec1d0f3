package mysql_test

import (
	"context"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/mysql"
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

// classicOutboxes returns what opens, for each case, an adopted table with
// nothing in it. Databases are lent as to the other suites, each with the table
// that was adopted into it.
func classicOutboxes(suite testing.TB, project bool) func(testing.TB) outboxStore {
	databases := mysql.NewDatabasesForTest(suite)
	var mu sync.Mutex
	tables := map[string]string{}
	return func(t testing.TB) outboxStore {
		at := databases.Take(t)
		mu.Lock()
		table := tables[at]
		mu.Unlock()
		if table == "" {
			table = adoptedFor(t, suite, at, project)
			mu.Lock()
			tables[at] = table
			mu.Unlock()
		}
		return openClassicOutbox(t, at, table)
	}
}

// adoptedFor makes a service's table in a database of its own, which is dropped
// with the suite, and adopts it. The payload's type is the one that keeps any
// bytes, and times are as fine as the suite's clock.
func adoptedFor(t, suite testing.TB, at string, project bool) (table string) {
	c := newClassic(suite, strings.NewReplacer("payload JSON", "payload LONGBLOB", "DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP", "DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)").Replace(classicTable))
	a, err := mysql.NewAdopt(at, migrate.AdoptConfig{
		Table: c.table(), Zone: "UTC", Payload: migrate.PayloadBody, Project: &project, Status: map[string][]string{migrate.StatusRetry: {"RETRY"}, migrate.StatusDead: {"DEAD"}},
		TopicOf: map[string]string{"slow": "slow", "elsewhere": "elsewhere", `a "quoted" topic`: `a "quoted" topic`},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return c.table()
}

func openClassicOutbox(t testing.TB, at, table string) outboxStore {
	s, o := openOutboxOf(t, at, table)
	if _, err := s.DB().Exec("UPDATE settle_adoption SET foreign_id = 0, foreign_rows = 0, foreign_seen_at = NULL"); err != nil {
		t.Fatal(err)
	}
	if err := o.Empty(context.Background()); err != nil {
		t.Fatal(err)
	}
	p := adopted.Producer{Table: table, Now: o.Now}
	o.Outbox = p
	o.Insert = func(ctx context.Context, id int64, e *settle.Event) error { return p.InsertAt(ctx, s.DB(), id, e) }
	return o
}
