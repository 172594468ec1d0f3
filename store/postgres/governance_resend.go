package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/settlemq/settle/govern"
)

const (
	// Nothing is deleted between the look and the commit.
	keepRows = `SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' t_outbox_extra', 3))`

	readOutgoing = `SELECT v.id, v.status, x.id IS NOT NULL AND x.reason = 'resend', p.id IS NOT NULL, t.due_at, coalesce(d.id, 0)
FROM v_outbox_event v LEFT JOIN t_outbox_extra x ON x.id = v.id LEFT JOIN t_outbox_parked p ON p.id = v.id
LEFT JOIN t_outbox_delayed t ON t.id = v.id LEFT JOIN t_dead_letter d ON d.consumer_group = '' AND d.event_id = v.event_id
WHERE v.event_id = $1 LIMIT 1`

	// The audit chain is never shortened, so it counts.
	countResends = `SELECT count(*) FROM t_audit WHERE target = $1 AND action = '` + govern.ActionResend + `'`

	// An empty table tells by its sequence that it had rows.
	lowestRow = `SELECT coalesce(e.id, 1 + coalesce(pg_sequence_last_value(pg_get_serial_sequence(settle_outbox_table()::text, 'id')::regclass), 0)), e.appended_at
FROM (SELECT 1) one LEFT JOIN LATERAL (SELECT id, appended_at FROM settle_outbox_row() ORDER BY id LIMIT 1) e ON true`

	addResend = `INSERT INTO t_outbox_extra (id, message_id, reason, added_at) VALUES ($1, $2, 'resend', $3)`
)

// Resend implements govern.Resender.
func (g *Governance) Resend(ctx context.Context, a govern.Act, eventIDs ...string) ([]govern.Resent, error) {
	outcomes := make([]govern.Resent, 0, len(eventIDs))
	if a.Reason == "" {
		return outcomes, errors.New("resend events: no reason is given")
	}
	for some := range slices.Chunk(eventIDs, maxActs) {
		var done []govern.Resent
		err := g.act(ctx, a, func(d *deed) error {
			done = done[:0]
			if _, err := d.tx.Exec(ctx, keepRows); err != nil {
				return err
			}
			for _, id := range some {
				o, err := g.resend(ctx, d, id)
				if err != nil {
					return fmt.Errorf("event %s: %w", id, err)
				}
				done = append(done, o)
			}
			_, err := d.tx.Exec(ctx, bumpControls)
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

func (g *Governance) resend(ctx context.Context, d *deed, eventID string) (govern.Resent, error) {
	id, o, err := g.outgoing(ctx, d.tx, eventID)
	if err != nil {
		return govern.Resent{}, err
	}
	message, why := o.Next()
	if why != "" {
		return govern.Resent{EventID: eventID, Result: "refused", Why: why}, nil
	}
	if _, err := d.tx.Exec(ctx, addResend, id, message, d.now); err != nil {
		return govern.Resent{}, err
	}
	return govern.Resent{EventID: eventID, Result: "done", MessageID: message}, d.audit(ctx, govern.ActionResend, eventID)
}

func (g *Governance) outgoing(ctx context.Context, tx pgx.Tx, eventID string) (id int64, o govern.Outgoing, err error) {
	o = govern.Outgoing{Service: g.s.service, EventID: eventID}
	var due, oldest pgtype.Timestamptz
	err = tx.QueryRow(ctx, readOutgoing, clean(eventID)).Scan(&id, &o.Status, &o.Asked, &o.Parked, &due, &o.Letter)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = tx.QueryRow(ctx, lowestRow).Scan(&o.Lowest, &oldest)
	case err == nil:
		err = tx.QueryRow(ctx, countResends, clean(eventID)).Scan(&o.Resends)
	}
	o.Due, o.Oldest = instant(due), instant(oldest)
	return id, o, err
}
