package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/settlemq/settle/govern"
)

const (
	readOutgoing = `SELECT v.id, v.status, x.id IS NOT NULL AND x.reason = 'resend', p.id IS NOT NULL, coalesce(t.due_at, 0), coalesce(d.id, 0)
FROM v_outbox_event v LEFT JOIN t_outbox_extra x ON x.id = v.id LEFT JOIN t_outbox_parked p ON p.id = v.id
LEFT JOIN t_outbox_delayed t ON t.id = v.id LEFT JOIN t_dead_letter d ON d.consumer_group = '' AND d.event_id = v.event_id
WHERE v.event_id = ? LIMIT 1`

	// The audit chain is never shortened, so it counts.
	countResends = `SELECT count(*) FROM t_audit WHERE target = ? AND action = '` + govern.ActionResend + `'`

	// An empty table tells by its sequence that it had rows.
	lowestRow = `SELECT coalesce(e.id, 1 + coalesce((SELECT seq FROM sqlite_sequence WHERE name = 't_outbox_event'), 0)), coalesce(e.appended_at, 0)
FROM (SELECT 1) LEFT JOIN (SELECT id, appended_at FROM t_outbox_event ORDER BY id LIMIT 1) e`

	addResend = `INSERT INTO t_outbox_extra (id, message_id, reason, added_at) VALUES (?, ?, 'resend', ?)`
)

// Resend implements govern.Resender.
func (g *Governance) Resend(ctx context.Context, a govern.Act, eventIDs ...string) ([]govern.Resent, error) {
	outcomes := make([]govern.Resent, 0, len(eventIDs))
	if a.Reason == "" {
		return outcomes, errors.New("resend events: no reason is given")
	}
	for some := range slices.Chunk(eventIDs, maxActs) {
		var done []govern.Resent
		err := g.act(ctx, a, func(tx *sql.Tx, now time.Time) error {
			for _, id := range some {
				o, err := g.resend(ctx, tx, now, a, id)
				if err != nil {
					return fmt.Errorf("event %s: %w", id, err)
				}
				done = append(done, o)
			}
			_, err := tx.ExecContext(ctx, bumpControls)
			// Crash here: nothing of this transaction is listed or audited. After
			// its commit all of it is, and the relay finds it, whoever leads.
			return err
		})
		if err != nil {
			return outcomes, fmt.Errorf("resend events: %w", err)
		}
		outcomes = append(outcomes, done...)
	}
	return outcomes, nil
}

func (g *Governance) resend(ctx context.Context, tx *sql.Tx, now time.Time, a govern.Act, eventID string) (govern.Resent, error) {
	id, o, err := g.outgoing(ctx, tx, eventID)
	if err != nil {
		return govern.Resent{}, err
	}
	message, why := o.Next()
	if why != "" {
		return govern.Resent{EventID: eventID, Result: "refused", Why: why}, nil
	}
	if _, err := tx.ExecContext(ctx, addResend, id, message, now.UnixMicro()); err != nil {
		return govern.Resent{}, err
	}
	return govern.Resent{EventID: eventID, Result: "done", MessageID: message}, audit(ctx, tx, now, a, govern.ActionResend, eventID)
}

func (g *Governance) outgoing(ctx context.Context, tx *sql.Tx, eventID string) (id int64, o govern.Outgoing, err error) {
	o = govern.Outgoing{Service: g.s.service, EventID: eventID}
	var due, oldest int64
	err = tx.QueryRowContext(ctx, readOutgoing, eventID).Scan(&id, &o.Status, &o.Asked, &o.Parked, &due, &o.Letter)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = tx.QueryRowContext(ctx, lowestRow).Scan(&o.Lowest, &oldest)
	case err == nil:
		err = tx.QueryRowContext(ctx, countResends, eventID).Scan(&o.Resends)
	}
	if due > 0 {
		o.Due = fromMicros(due)
	}
	if oldest > 0 {
		o.Oldest = fromMicros(oldest)
	}
	return id, o, err
}
