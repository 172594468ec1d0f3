package postgres_test

import (
	"database/sql"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/store/storetest/broken"
)

// The relay does not know whether the outbox is in partitions. They are so narrow
// here that each rule meets several, and that some go.
// The plain run asks those that partitions are in the way of.
func TestAPartitionedOutboxKeepsEveryRuleOfTheSuite(t *testing.T) {
	all := os.Getenv("SETTLE_TEST_ALL") != ""
	later := map[string]string{}
	for _, c := range storetest.OutboxCases[*sql.Tx]() {
		if !all && !slices.ContainsFunc([]string{"deleted", "deletion", "event id", "hole", "late", "byte for byte"}, func(word string) bool { return strings.Contains(c.Name, word) }) {
			later[c.Name] = "set SETTLE_TEST_ALL=1; the plain run asks it of an outbox that is one table"
		}
	}
	storetest.RunOutboxExcept(t, later, partitionedOutboxes(t))
}

func TestLanesOfAPartitionedOutboxKeepEveryRuleOfTheSuite(t *testing.T) {
	inAll(t)
	storetest.RunLanes(t, partitionedOutboxes(t))
}

func TestEveryRuleOfTheOutboxSuiteFailsABrokenStoreInPartitions(t *testing.T) {
	inAll(t)
	broken.RunOutbox(t, partitionedOutboxes(t))
}

func inAll(t *testing.T) {
	t.Helper()
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("the plain run shows it of an outbox that is one table; set SETTLE_TEST_ALL=1 for partitions")
	}
}

func partitionedOutboxes(suite testing.TB) func(testing.TB) outboxStore {
	schemas := postgres.NewSchemasForTest(suite)
	return func(t testing.TB) outboxStore {
		at := schemas.Take(t) + "&synchronous_commit=off"
		postgres.PartitionForTest(t, at, 2)
		return openOutbox(t, at)
	}
}
