package postgres

import (
	"context"
	"fmt"

	"github.com/settlemq/settle/govern"
)

const reviveParked = `UPDATE t_outbox_parked SET dead = false, attempts = 0, next_at = $1, suspect = suspect OR class = 'kills_process'
WHERE id = $2 AND destination = $3`

const bumpControls = `UPDATE settle_control_version SET version = version + 1`

// replayPublish makes the relay try a refused event again, in its old place.
// The relay sees the change of version, and closes the dead letter when the
// broker has the event.
func replayPublish(ctx context.Context, d *deed, l *deadLetter) (string, error) {
	tag, err := d.tx.Exec(ctx, reviveParked, d.now, l.outboxID, l.destination)
	if err != nil {
		return "", err
	}
	if tag.RowsAffected() == 0 {
		return "its key went on without it and the relay keeps no row of it; append an event that supersedes it, and discard it", nil
	}
	if _, err := d.tx.Exec(ctx, bumpControls); err != nil {
		return "", err
	}
	_, err = d.tx.Exec(ctx, beginAgain, govern.StateReplaying, d.By, l.id)
	return "", err
}

const dropParked = `DELETE FROM t_outbox_parked WHERE id = $1 AND destination = $2`

// discardPublish lets the relay go on with the key.
func discardPublish(ctx context.Context, d *deed, l *deadLetter) error {
	if _, err := d.tx.Exec(ctx, dropParked, l.outboxID, l.destination); err != nil {
		return err
	}
	_, err := d.tx.Exec(ctx, bumpControls)
	return err
}

const insertSkip = `INSERT INTO settle_skip (event_id, created_by, created_at) SELECT event_id, $1, $2 FROM settle_outbox_row() WHERE event_id = $3
ON CONFLICT DO NOTHING`

// Skip implements govern.Controller.
func (g *Governance) Skip(ctx context.Context, a govern.Act, eventID string) error {
	err := g.act(ctx, a, func(d *deed) error {
		tag, err := d.tx.Exec(ctx, insertSkip, d.By, d.now, clean(eventID))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return govern.ErrNotFound
		}
		return d.audit(ctx, "control.skip", eventID)
	})
	if err != nil {
		return fmt.Errorf("skip event %s: %w", eventID, err)
	}
	return nil
}
