package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/settlemq/settle/govern"
)

// controlKinds are what can be paused.
var controlKinds = []string{"relay", "topic", "group", "key"}

const insertControl = `INSERT INTO settle_control (kind, name, created_by, created_at) VALUES (?,?,?,?) ON CONFLICT DO NOTHING`

// Pause implements govern.Controller.
func (g *Governance) Pause(ctx context.Context, a govern.Act, kind, name string) error {
	if !slices.Contains(controlKinds, kind) {
		return fmt.Errorf("pause %s %q: no such kind; there are %s", kind, name, strings.Join(controlKinds, ", "))
	}
	if kind != "relay" && name == "" {
		return fmt.Errorf("pause %s: which one is not named", kind)
	}
	err := g.act(ctx, a, func(tx *sql.Tx, now time.Time) error {
		changed, err := affected(tx.ExecContext(ctx, insertControl, kind, name, a.By, now.UnixMicro()))
		if err != nil || !changed {
			return err
		}
		return audit(ctx, tx, now, a, "control.pause", kind+":"+name)
	})
	if err != nil {
		return fmt.Errorf("pause %s %s: %w", kind, name, err)
	}
	return nil
}

const knowsGroup = `SELECT EXISTS (SELECT 1 FROM t_message_consume_log WHERE consumer_group = ?1)
OR EXISTS (SELECT 1 FROM t_consume_retry WHERE consumer_group = ?1)
OR EXISTS (SELECT 1 FROM t_consume_partition WHERE consumer_group = ?1)`

// A topic has no index in the outbox; the newest rows name those in use.
const knowsTopic = `SELECT EXISTS (SELECT 1 FROM (SELECT topic FROM t_outbox_event ORDER BY id DESC LIMIT 10000) WHERE topic = ?1)
OR EXISTS (SELECT 1 FROM t_consume_partition WHERE topic = ?1)`

// Known implements govern.Controller.
func (g *Governance) Known(ctx context.Context, kind, name string) (bool, error) {
	query := knowsGroup
	switch kind {
	case "group":
	case "topic":
		query = knowsTopic
	default:
		return true, nil
	}
	tx, err := g.s.snapshot(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	var known bool
	if err := tx.QueryRowContext(ctx, query, name).Scan(&known); err != nil {
		return false, fmt.Errorf("look for %s %s: %w", kind, name, err)
	}
	return known, nil
}

const deleteControl = `DELETE FROM settle_control WHERE kind = ? AND name = ?`

// Resume implements govern.Controller.
func (g *Governance) Resume(ctx context.Context, a govern.Act, kind, name string) error {
	err := g.act(ctx, a, func(tx *sql.Tx, now time.Time) error {
		changed, err := affected(tx.ExecContext(ctx, deleteControl, kind, name))
		if err != nil {
			return err
		}
		if !changed {
			return govern.ErrNotFound
		}
		return audit(ctx, tx, now, a, "control.resume", kind+":"+name)
	})
	if err != nil {
		return fmt.Errorf("resume %s %s: %w", kind, name, err)
	}
	return nil
}

// affected reports whether a statement changed any row.
func affected(res sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
