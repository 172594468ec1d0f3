package mysql

import (
	"context"
	"sync"
	"testing"
	"time"
)

// DatabasesForTest lends databases to the cases of a suite, one at a time:
// emptying one takes a fraction of making one.
type DatabasesForTest struct {
	owner testing.TB
	mu    sync.Mutex
	free  []string
}

// NewDatabasesForTest returns databases that are dropped when the suite has ended.
func NewDatabasesForTest(suite testing.TB) *DatabasesForTest {
	suite.Helper()
	serverForTest(suite)
	return &DatabasesForTest{owner: suite}
}

// Take returns the URL of a database with nothing in it. It is emptied when the
// case ends.
func (p *DatabasesForTest) Take(t testing.TB) string {
	t.Helper()
	p.mu.Lock()
	at := ""
	if n := len(p.free); n > 0 {
		at, p.free = p.free[n-1], p.free[:n-1]
	}
	p.mu.Unlock()
	if at == "" {
		at = DatabaseForTest(p.owner)
	}
	t.Cleanup(func() {
		if err := empty(at); err != nil {
			t.Errorf("empty the database: %v", err)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free = append(p.free, at)
	})
	return at
}

const filledTables = `SELECT table_name, coalesce(auto_increment, 1) FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND table_name NOT IN ('settle_schema', 'settle_control_version', 't_audit_turn', 't_outbox_division', 't_half_scope', 't_outbox_lane', 'settle_adoption')`

func empty(at string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cfg, err := parseURL(at)
	if err != nil {
		return err
	}
	db, err := pool(cfg, nil, 1, time.Minute)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	queries := []string{"UPDATE settle_control_version SET version = 1", "DELETE FROM t_outbox_division WHERE generation > 1", "DELETE FROM t_outbox_lane WHERE generation > 1"}
	var name string
	var next int64
	err = each(ctx, db, []any{&name, &next}, func() {
		queries = append(queries, "DELETE FROM "+quoted(name))
		if next > 1 {
			queries = append(queries, "ALTER TABLE "+quoted(name)+" AUTO_INCREMENT = 1")
		}
	}, filledTables)
	for _, q := range queries {
		if err == nil {
			_, err = db.ExecContext(ctx, q)
		}
	}
	return err
}
