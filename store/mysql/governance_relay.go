package mysql

import (
	"context"
	"fmt"

	"github.com/settlemq/settle/govern"
)

const reviveParked = `UPDATE t_outbox_parked SET dead = false, suspect = suspect OR class = 'kills_process', next_at = ?, attempts = 0
WHERE id = ? AND destination = ?`

// replayPublish makes the relay try a refused event again, in its old place.
// The relay sees the change of version, and closes the dead letter when the
// broker has the event.
func replayPublish(ctx context.Context, d *deed, l *deadLetter) (string, error) {
	n, err := d.do(ctx, reviveParked, d.now, l.outboxID, l.destination)
	if err != nil {
		return "", err
	}
	if n == 0 {
		return "its key went on without it and the relay keeps no row of it; append an event that supersedes it, and discard it", nil
	}
	if _, err := d.do(ctx, bumpControls); err != nil {
		return "", err
	}
	_, err = d.do(ctx, beginAgain, govern.StateReplaying, d.By, l.id)
	return "", err
}

const dropParked = `DELETE FROM t_outbox_parked WHERE id = ? AND destination = ?`

// discardPublish lets the relay go on with the key.
func discardPublish(ctx context.Context, d *deed, l *deadLetter) error {
	if _, err := d.do(ctx, dropParked, l.outboxID, l.destination); err != nil {
		return err
	}
	_, err := d.do(ctx, bumpControls)
	return err
}

const insertSkip = `INSERT INTO settle_skip (event_id, created_by, created_at) SELECT event_id, ?, ? FROM t_outbox_event WHERE event_id = ?`

// Skip implements govern.Controller.
func (g *Governance) Skip(ctx context.Context, a govern.Act, eventID string) error {
	err := g.act(ctx, a, func(d *deed) error {
		n, err := d.do(ctx, insertSkip, d.By, d.now, clean(eventID))
		if hasCode(err, codeDuplicate) || err == nil && n == 0 {
			return govern.ErrNotFound
		}
		if err != nil {
			return err
		}
		if _, err := d.do(ctx, bumpControls); err != nil {
			return err
		}
		return d.audit(ctx, "control.skip", eventID)
	})
	if err != nil {
		return fmt.Errorf("skip event %s: %w", eventID, err)
	}
	return nil
}
