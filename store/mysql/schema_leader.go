package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/settlemq/settle/govern"
)

const runningLease = `SELECT l.owner, r.expires_at FROM t_outbox_lease l
JOIN settle_renewal r ON r.scope = ? AND r.name = l.lane AND r.epoch = l.epoch
WHERE NOT l.clean AND r.expires_at > UTC_TIMESTAMP(6) ORDER BY r.expires_at DESC LIMIT 1`

// nobodyLeads refuses while a relay leads, paused or not: it would go on
// without its tables. One that takes the lease after this look is not kept out:
// the first statement that changes the schema lets every lock go.
func nobodyLeads(ctx context.Context, tx *sql.Tx) error {
	var owner string
	var until time.Time
	err := tx.QueryRowContext(ctx, runningLease, relayScope).Scan(&owner, &until)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look who leads: %w", explain(err))
	}
	return fmt.Errorf("%w: %s, until %s; end it (settle serve, or the program that runs the relay) and every standby, or wait until then", govern.ErrLeads, owner, until)
}
