package shop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/settlemq/settle/examples/shop/lifecycle"
	"github.com/settlemq/settle/govern"
)

// UnsettledOrder is an order that is neither completed nor cancelled, although
// no open dead letter explains it. Cause says what it waits for; it is told of
// the oldest 50 only, since that looks into the databases of all services.
type UnsettledOrder struct {
	OrderID string        `json:"order_id"`
	Status  string        `json:"status"`
	Since   time.Time     `json:"since"`
	Age     time.Duration `json:"age"`
	Cause   string        `json:"cause"`
}

// maxUnsettled bounds what Unsettled lists.
const maxUnsettled = 1000

// maxExplained bounds how many of them have a cause.
const maxExplained = 50

// Unsettled lists the unsettled orders of the shop in dir, oldest first, at
// most 1,000.
func Unsettled(ctx context.Context, dir string) ([]UnsettledOrder, error) {
	v, err := openView(ctx, dir)
	if err != nil {
		return nil, err
	}
	found, err := v.unsettled(ctx, maxUnsettled)
	return found, errors.Join(err, v.close())
}

const findOpen = `SELECT order_id, status, created_at FROM t_order WHERE status NOT IN ('COMPLETED', 'CANCELLED') ORDER BY created_at`

func (v *view) unsettled(ctx context.Context, limit int) ([]UnsettledOrder, error) {
	explained, err := v.deadKeys(ctx)
	if err != nil {
		return nil, err
	}
	found, err := v.open(ctx, limit, explained)
	if err != nil {
		return nil, err
	}
	for i := range found[:min(len(found), maxExplained)] {
		o, err := v.status(ctx, found[i].OrderID)
		if err != nil {
			return nil, err
		}
		found[i].Status, found[i].Cause = o.Status, o.Waiting
	}
	// What has settled while we looked is left out.
	return slices.DeleteFunc(found, func(o UnsettledOrder) bool { return lifecycle.Final(o.Status) }), nil
}

func (v *view) open(ctx context.Context, limit int, explained map[string]bool) ([]UnsettledOrder, error) {
	rows, err := v.orders.db.Reader.QueryContext(ctx, findOpen)
	if err != nil {
		return nil, fmt.Errorf("find unsettled orders: %w", err)
	}
	defer func() { _ = rows.Close() }()
	now := v.orders.now()
	found := []UnsettledOrder{}
	for len(found) < limit && rows.Next() {
		var o UnsettledOrder
		var created int64
		if err := rows.Scan(&o.OrderID, &o.Status, &created); err != nil {
			return nil, fmt.Errorf("find unsettled orders: %w", err)
		}
		if !explained[o.OrderID] {
			o.Since = time.UnixMicro(created).UTC()
			o.Age = now.Sub(o.Since)
			found = append(found, o)
		}
	}
	return found, rows.Err()
}

// deadKeys returns the keys of all open dead letters.
func (v *view) deadKeys(ctx context.Context) (map[string]bool, error) {
	keys := map[string]bool{}
	for _, name := range v.federation.Names() {
		store, _ := v.federation.Store(name)
		filter := govern.Filter{State: govern.StateOpen, Limit: 1000}
		for {
			page, err := store.DeadLetters(ctx, filter)
			if err != nil {
				return nil, fmt.Errorf("list dead letters of %s: %w", name, err)
			}
			for _, d := range page {
				keys[d.Key] = true
				filter.After = d.ID
			}
			if len(page) < filter.Limit {
				break
			}
		}
	}
	return keys, nil
}
