package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/govern"
)

// controlKinds are what can be paused.
var controlKinds = []string{"relay", "topic", "group", "key"}

const insertControl = `INSERT INTO settle_control (kind, name, created_by, created_at) VALUES ($1,$2,$3,$4) ON CONFLICT DO NOTHING`

// Pause implements govern.Controller.
func (g *Governance) Pause(ctx context.Context, a govern.Act, kind, name string) error {
	if !slices.Contains(controlKinds, kind) {
		return fmt.Errorf("pause %s %q: no such kind; there are %s", kind, name, strings.Join(controlKinds, ", "))
	}
	if kind != "relay" && name == "" {
		return fmt.Errorf("pause %s: which one is not named", kind)
	}
	err := g.act(ctx, a, func(d *deed) error {
		tag, err := d.tx.Exec(ctx, insertControl, kind, clean(name), d.By, d.now)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return d.audit(ctx, "control.pause", kind+":"+name)
	})
	if err != nil {
		return fmt.Errorf("pause %s %s: %w", kind, name, err)
	}
	return nil
}

const knowsGroup = `SELECT EXISTS (SELECT 1 FROM t_message_consume_log WHERE consumer_group = $1)
OR EXISTS (SELECT 1 FROM t_consume_retry WHERE consumer_group = $1)
OR EXISTS (SELECT 1 FROM t_consume_partition WHERE consumer_group = $1)`

// A topic has no index in the outbox; the newest rows name those in use.
const knowsTopic = `SELECT EXISTS (SELECT 1 FROM (SELECT topic FROM settle_outbox_row() ORDER BY id DESC LIMIT 10000) newest WHERE topic = $1)
OR EXISTS (SELECT 1 FROM t_consume_partition WHERE topic = $1)`

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
	var known bool
	err := g.s.view(ctx, func(tx pgx.Tx) error { return tx.QueryRow(ctx, query, clean(name)).Scan(&known) })
	if err != nil {
		return false, fmt.Errorf("look for %s %s: %w", kind, name, err)
	}
	return known, nil
}

const deleteControl = `DELETE FROM settle_control WHERE kind = $1 AND name = $2`

// Resume implements govern.Controller.
func (g *Governance) Resume(ctx context.Context, a govern.Act, kind, name string) error {
	err := g.act(ctx, a, func(d *deed) error {
		tag, err := d.tx.Exec(ctx, deleteControl, clean(kind), clean(name))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return govern.ErrNotFound
		}
		return d.audit(ctx, "control.resume", kind+":"+name)
	})
	if err != nil {
		return fmt.Errorf("resume %s %s: %w", kind, name, err)
	}
	return nil
}
