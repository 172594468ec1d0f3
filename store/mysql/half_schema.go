package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/settlemq/settle/store/migrate"
)

const (
	hasHalves = `SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 't_half_message'`

	countHalves = `SELECT count(*) FROM t_half_message WHERE state IN ('COMMITTED', 'DEAD')`
)

// guardHalves refuses while there are committed events that no broker has
// confirmed. It keeps nobody out, as guardUndelivered does not.
func guardHalves(ctx context.Context, tx *sql.Tx) error {
	var there int
	if err := tx.QueryRowContext(ctx, hasHalves).Scan(&there); err != nil || there == 0 {
		return explain(err)
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
