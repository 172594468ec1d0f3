package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/settlemq/settle/govern"
)

const reviveParked = `UPDATE t_outbox_parked SET dead = 0, attempts = 0, next_at = ?, suspect = CASE class WHEN 'kills_process' THEN 1 ELSE suspect END
WHERE id = ? AND destination = ?`

const bumpControls = `UPDATE settle_control_version SET version = version + 1`

// replayPublish makes the relay try a refused event again, in its old place.
// The relay sees the change of version, and closes the dead letter when the
// broker has the event.
func (g *Governance) replayPublish(ctx context.Context, tx *sql.Tx, now time.Time, a govern.Act, d *deadLetter) (string, error) {
	found, err := affected(tx.ExecContext(ctx, reviveParked, now.UnixMicro(), d.outboxID, d.destination))
	if err != nil {
		return "", err
	}
	if !found {
		return "its key went on without it and the relay keeps no row of it; append an event that supersedes it, and discard it", nil
	}
	if _, err := tx.ExecContext(ctx, bumpControls); err != nil {
		return "", err
	}
	_, err = tx.ExecContext(ctx, beginAgain, govern.StateReplaying, a.By, d.id)
	return "", err
}

const dropParked = `DELETE FROM t_outbox_parked WHERE id = ? AND destination = ?`

// discardPublish lets the relay go on with the key.
func (g *Governance) discardPublish(ctx context.Context, tx *sql.Tx, d *deadLetter) error {
	if _, err := tx.ExecContext(ctx, dropParked, d.outboxID, d.destination); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, bumpControls)
	return err
}

const insertSkip = `INSERT INTO settle_skip (event_id, created_by, created_at) SELECT event_id, ?, ? FROM t_outbox_event WHERE event_id = ?
ON CONFLICT DO NOTHING`

// Skip implements govern.Controller.
func (g *Governance) Skip(ctx context.Context, a govern.Act, eventID string) error {
	err := g.act(ctx, a, func(tx *sql.Tx, now time.Time) error {
		asked, err := affected(tx.ExecContext(ctx, insertSkip, a.By, now.UnixMicro(), eventID))
		if err != nil {
			return err
		}
		if !asked {
			return govern.ErrNotFound
		}
		return audit(ctx, tx, now, a, "control.skip", eventID)
	})
	if err != nil {
		return fmt.Errorf("skip event %s: %w", eventID, err)
	}
	return nil
}
