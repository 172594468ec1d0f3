package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/settlemq/settle/govern"
)

const (
	// Nobody takes a lease over, and nobody gives one back, until the way down
	// has ended.
	keepLeases = `SET LOCAL lock_timeout = '10s'; LOCK TABLE t_outbox_lease IN SHARE ROW EXCLUSIVE MODE`

	runningLease = `SELECT l.owner, r.expires_at FROM t_outbox_lease l CROSS JOIN LATERAL
 (SELECT expires_at FROM settle_renewal WHERE scope = $1 AND name = l.lane::text AND epoch = l.epoch ORDER BY renewal_no DESC LIMIT 1) r
WHERE NOT l.clean AND r.expires_at > clock_timestamp() ORDER BY r.expires_at DESC LIMIT 1`
)

// nobodyLeads refuses while a relay leads any lane, paused or not: it would go
// on without its tables.
func nobodyLeads(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, keepLeases); err != nil {
		return fmt.Errorf("wait for relays: %w", explain(err))
	}
	var owner string
	var until time.Time
	err := tx.QueryRowContext(ctx, runningLease, relayScope).Scan(&owner, &until)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look who leads: %w", explain(err))
	}
	return fmt.Errorf("%w: %s, until %s; end it (settle serve, or the program that runs the relay) and every standby, or wait until then", govern.ErrLeads, owner, until.UTC().Format("15:04:05"))
}
