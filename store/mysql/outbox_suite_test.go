package mysql_test

import (
	"cmp"
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/store/storetest/broken"
)

type outboxStore = storetest.OutboxStore[*sql.Tx]

func TestTheOutboxKeepsEveryRuleOfTheSuite(t *testing.T) { storetest.RunOutbox(t, outboxes(t)) }

func TestTheOutboxKeepsEveryRuleOfLanes(t *testing.T) { storetest.RunLanes(t, outboxes(t)) }

func TestEveryRuleOfLanesFailsABrokenStore(t *testing.T) { broken.RunLanes(t, outboxes(t)) }

func TestEveryRuleOfTheOutboxSuiteFailsABrokenStore(t *testing.T) { broken.RunOutbox(t, outboxes(t)) }

// testClock is a clock that a test moves.
type testClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *testClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *testClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// outboxes returns what opens an empty outbox for each case.
func outboxes(suite testing.TB) func(testing.TB) outboxStore {
	databases := mysql.NewDatabasesForTest(suite)
	return func(t testing.TB) outboxStore { return openOutbox(t, databases.Take(t)) }
}

func openOutbox(t testing.TB, at string) outboxStore {
	_, o := openOutboxOf(t, at, "t_outbox_event")
	return o
}

// openOutboxOf opens an outbox whose rows are in a table.
func openOutboxOf(t testing.TB, at, table string) (*mysql.Store, outboxStore) {
	clock := &testClock{at: time.Now()}
	s, other := mysql.OpenForTest(t, at, mysql.Config{Clock: clock.now}), mysql.OpenForTest(t, at, mysql.Config{Clock: clock.now})
	return s, outboxStore{
		Outbox: s, Begin: s.Begin, Commit: (*sql.Tx).Commit, Rollback: (*sql.Tx).Rollback,
		Store: s.Log(), Standby: other.Log(), Governance: s.Governance(),
		Status: func(ctx context.Context, eventID string) (status string, err error) {
			err = s.Reader().QueryRowContext(ctx, "SELECT status FROM v_outbox_event WHERE event_id = ?", eventID).Scan(&status)
			return status, err
		},
		Where: func(ctx context.Context, eventID string) (at settle.Coordinates, err error) {
			err = s.Reader().QueryRowContext(ctx, "SELECT v.topic, v.`partition`, v.`offset` FROM t_outbox_event e, v_outbox_sent v "+
				"WHERE e.event_id = ? AND v.id = e.id AND v.first_id <= e.id AND v.last_id >= e.id", eventID).Scan(&at.Topic, &at.Partition, &at.Offset)
			return at, err
		},
		Pass: clock.pass, Now: clock.now,
		Insert: func(ctx context.Context, id int64, e *settle.Event) error {
			_, err := s.DB().ExecContext(ctx, "INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, topic, payload) VALUES (?,?,?,?,?,?)",
				id, e.ID, e.Type, e.AggregateID, cmp.Or(e.Topic, settle.DefaultTopic), e.Payload)
			return err
		},
		Vanish: func(ctx context.Context, eventID string) error {
			_, err := s.DB().ExecContext(ctx, "DELETE FROM "+table+" WHERE event_id = ?", eventID)
			return err
		},
		Empty: func(ctx context.Context) error {
			_, err := s.DB().ExecContext(ctx, "TRUNCATE "+table)
			return err
		},
	}
}
