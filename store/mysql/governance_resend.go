package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/settlemq/settle/govern"
)

const (
	readOutgoing = `SELECT v.id, v.status, coalesce(x.reason = 'resend', false), p.id IS NOT NULL, t.due_at, coalesce(d.id, 0)
FROM v_outbox_event v LEFT JOIN t_outbox_extra x ON x.id = v.id LEFT JOIN t_outbox_parked p ON p.id = v.id
LEFT JOIN t_outbox_delayed t ON t.id = v.id LEFT JOIN t_dead_letter d ON d.consumer_group = '' AND d.event_id = (v.event_id)
WHERE v.event_id = ? LIMIT 1`

	// The audit chain is never shortened, so it counts.
	countResends = `SELECT count(*) FROM t_audit WHERE target = ? AND action = '` + govern.ActionResend + `'`

	oldestRow = `SELECT id, appended_at FROM t_outbox_event ORDER BY id LIMIT 1`

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
		err := g.act(ctx, a, func(d *deed) error {
			done = done[:0]
			// Nothing is deleted between the look and the commit: who deletes holds
			// the version.
			if _, err := d.do(ctx, bumpControls); err != nil {
				return err
			}
			for _, id := range some {
				o, err := g.resend(ctx, d, id)
				if err != nil {
					return fmt.Errorf("event %s: %w", id, err)
				}
				done = append(done, o)
			}
			// Crash here: nothing of this transaction is listed or audited. After
			// its commit all of it is, and the relay finds it, whoever leads.
			return nil
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
	if _, err := d.do(ctx, addResend, id, message, d.now); err != nil {
		return govern.Resent{}, err
	}
	return govern.Resent{EventID: eventID, Result: "done", MessageID: message}, d.audit(ctx, govern.ActionResend, eventID)
}

func (g *Governance) outgoing(ctx context.Context, tx *sql.Tx, eventID string) (id int64, o govern.Outgoing, err error) {
	o = govern.Outgoing{Service: g.s.service, EventID: eventID}
	var due, oldest timeColumn
	err = tx.QueryRowContext(ctx, g.s.reading(readOutgoing), clean(eventID)).Scan(&id, &o.Status, &o.Asked, &o.Parked, &due, &o.Letter)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = g.lowest(ctx, tx, &o.Lowest, &oldest)
	case err == nil:
		err = tx.QueryRowContext(ctx, countResends, clean(eventID)).Scan(&o.Resends)
	}
	o.Due, o.Oldest = due.Time, oldest.Time
	return id, o, err
}

// lowest reads the lowest row; an empty table tells by its counter that it had
// rows.
func (g *Governance) lowest(ctx context.Context, tx *sql.Tx, id *int64, appended *timeColumn) error {
	err := tx.QueryRowContext(ctx, oldestRow).Scan(id, appended)
	if errors.Is(err, sql.ErrNoRows) {
		err = tx.QueryRowContext(ctx, g.s.reading(givenUpTo)).Scan(id)
		*id++
	}
	return err
}
