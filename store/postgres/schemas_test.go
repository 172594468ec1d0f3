package postgres

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// SchemasForTest lends schemas to the cases of a suite, one at a time: emptying
// one takes a fraction of making one.
type SchemasForTest struct {
	owner testing.TB
	mu    sync.Mutex
	free  []string
}

// NewSchemasForTest returns schemas that are dropped when the suite has ended.
func NewSchemasForTest(suite testing.TB) *SchemasForTest {
	suite.Helper()
	serverForTest(suite)
	return &SchemasForTest{owner: suite}
}

// Take returns the URL of a schema with nothing in it. It is emptied when the
// case ends.
func (p *SchemasForTest) Take(t testing.TB) string {
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
			t.Errorf("empty the schema: %v", err)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free = append(p.free, at)
	})
	return at
}

const emptyAll = `DO $$
DECLARE t text;
BEGIN
  SET LOCAL session_replication_role = replica; -- the audit refuses it otherwise
  FOR t IN SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema() AND tablename NOT IN ('settle_schema', 'settle_control_version', 't_outbox_division', 'settle_adoption', 't_half_scope') LOOP
    EXECUTE 'DELETE FROM ' || t;
  END LOOP;
  FOR t IN SELECT quote_ident(sequencename) FROM pg_sequences WHERE schemaname = current_schema() AND last_value IS NOT NULL AND sequencename NOT LIKE 'settle_schema%' LOOP
    EXECUTE 'ALTER SEQUENCE ' || t || ' RESTART';
  END LOOP;
  DELETE FROM t_outbox_division WHERE generation > 1;
  UPDATE settle_control_version SET version = 1;
END $$`

func empty(at string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, emptyAll)
	return err
}
