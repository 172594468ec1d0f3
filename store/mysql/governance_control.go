package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/settlemq/settle/govern"
)

// controlKinds are what can be paused.
var controlKinds = []string{"relay", "topic", "group", "key"}

const insertControl = `INSERT INTO settle_control (kind, name, created_by, created_at) VALUES (?,?,?,?)`

// bumpControls tells every process that controls have changed; see
// settle_control_version.
const bumpControls = `UPDATE settle_control_version SET version = version + 1`

// Pause implements govern.Controller.
func (g *Governance) Pause(ctx context.Context, a govern.Act, kind, name string) error {
	if !slices.Contains(controlKinds, kind) {
		return fmt.Errorf("pause %s %q: no such kind; there are %s", kind, name, strings.Join(controlKinds, ", "))
	}
	if kind != "relay" && name == "" {
		return fmt.Errorf("pause %s: which one is not named", kind)
	}
	err := g.act(ctx, a, func(d *deed) error {
		_, err := d.do(ctx, insertControl, kind, clean(name), d.By, d.now)
		if hasCode(err, codeDuplicate) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := d.do(ctx, bumpControls); err != nil {
			return err
		}
		return d.audit(ctx, "control.pause", kind+":"+name)
	})
	if err != nil {
		return fmt.Errorf("pause %s %s: %w", kind, name, err)
	}
	return nil
}

const knowsGroup = `SELECT EXISTS (SELECT 1 FROM t_message_consume_log WHERE consumer_group = ?)
OR EXISTS (SELECT 1 FROM t_consume_retry WHERE consumer_group = ?)
OR EXISTS (SELECT 1 FROM t_consume_partition WHERE consumer_group = ?)`

// A topic has no index in the outbox; the newest rows name those in use.
const knowsTopic = `SELECT EXISTS (SELECT 1 FROM (SELECT topic FROM t_outbox_event ORDER BY id DESC LIMIT 10000) newest WHERE topic = ?)
OR EXISTS (SELECT 1 FROM t_consume_partition WHERE topic = ?)`

// Known implements govern.Controller.
func (g *Governance) Known(ctx context.Context, kind, name string) (bool, error) {
	is := clean(name)
	query, args := knowsGroup, []any{is, is, is}
	switch kind {
	case "group":
	case "topic":
		query, args = knowsTopic, []any{is, is}
	default:
		return true, nil
	}
	var known bool
	err := snapshot(ctx, g.s.reader, func(tx *sql.Tx) error { return tx.QueryRowContext(ctx, query, args...).Scan(&known) })
	if err != nil {
		return false, fmt.Errorf("look for %s %s: %w", kind, name, explain(err))
	}
	return known, nil
}

const deleteControl = `DELETE FROM settle_control WHERE kind = ? AND name = ?`

// Resume implements govern.Controller.
func (g *Governance) Resume(ctx context.Context, a govern.Act, kind, name string) error {
	err := g.act(ctx, a, func(d *deed) error {
		n, err := d.do(ctx, deleteControl, clean(kind), clean(name))
		if err != nil {
			return err
		}
		if n == 0 {
			return govern.ErrNotFound
		}
		if _, err := d.do(ctx, bumpControls); err != nil {
			return err
		}
		return d.audit(ctx, "control.resume", kind+":"+name)
	})
	if err != nil {
		return fmt.Errorf("resume %s %s: %w", kind, name, err)
	}
	return nil
}
