package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/settlemq/settle/store/migrate"
)

const (
	hasHalves = `SELECT to_regclass('t_half_message') IS NOT NULL`

	// A local transaction that is open is waited for, and none begins until the
	// way down has ended.
	keepHalvesOut = `LOCK TABLE t_half_message IN ACCESS EXCLUSIVE MODE`

	countHalves = `SELECT count(*) FROM t_half_message WHERE state IN ('COMMITTED', 'DEAD')`
)

// guardHalves refuses while there are committed events that no broker has
// confirmed.
func guardHalves(ctx context.Context, tx *sql.Tx) error {
	var there bool
	if err := tx.QueryRowContext(ctx, hasHalves).Scan(&there); err != nil || !there {
		return explain(err)
	}
	if _, err := tx.ExecContext(ctx, keepHalvesOut); err != nil {
		return fmt.Errorf("wait for those who write: %w", explain(err))
	}
	var open int64
	if err := tx.QueryRowContext(ctx, countHalves).Scan(&open); err != nil {
		return fmt.Errorf("count half messages that are not confirmed: %w", explain(err))
	}
	if open > 0 {
		return fmt.Errorf("%d events that went as half messages are not confirmed by the broker: %w", open, migrate.ErrUndelivered)
	}
	return nil
}
