package shop

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// aggregate keeps, for each order, one row in the state of a machine. The
// table has the columns order_id, state, version and updated_at; version counts
// the row's events. Others have defaults and are the service's business.
type aggregate struct {
	machine lifecycle.Machine
	table   string
	db      *dial.Database
	now     func() time.Time
}

// instance is the row of one order while an event works on it.
type instance struct {
	orderID, state string
	version        int64
	at             int64         // microseconds since 1970, UTC
	event          *settle.Event // the cause
}

const findInstance = `SELECT state, version FROM %s WHERE order_id = $1`

// find returns the row of e's order; its state is lifecycle.None when there is
// none yet.
func (a aggregate) find(ctx context.Context, tx *sql.Tx, e *settle.Event) (instance, error) {
	i := instance{orderID: e.AggregateID, at: a.now().UnixMicro(), event: e}
	err := queryRow(ctx, a.db, tx, locked(a.db, fmt.Sprintf(findInstance, a.table)), i.orderID).Scan(&i.state, &i.version)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return i, fmt.Errorf("read %s: %w", a.machine.Aggregate, err)
	}
	return i, nil
}

// next is what the machine says to input, which is the cause's type but for a
// compensation. A hole in the table is a bug that no retry cures.
func (a aggregate) next(i instance, input, when string) (lifecycle.Transition, error) {
	t, ok := a.machine.Next(i.state, input, when)
	if !ok {
		return t, settle.Permanent(fmt.Errorf("a %s that is %q has no answer to %s (%s)", a.machine.Aggregate, i.state, input, when))
	}
	return t, nil
}

// asks reports whether the machine's answer to input depends on when.
func (a aggregate) asks(i instance, input, when string) bool {
	t, _ := a.machine.Next(i.state, input, when)
	return t.When == when
}

const saveInstance = `INSERT INTO %s (order_id, state, version, updated_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (order_id) DO UPDATE SET state = excluded.state, version = excluded.version, updated_at = excluded.updated_at`

// save writes the row's new state and, if t says so, its event with payload.
// A transition that changes nothing writes nothing.
func (a aggregate) save(ctx context.Context, tx *sql.Tx, i instance, t lifecycle.Transition, payload any) error {
	if !t.Changes() {
		return nil
	}
	if t.Emits != "" {
		i.version++
	}
	if _, err := exec(ctx, a.db, tx, fmt.Sprintf(worded(a.db.Dialect, saveInstance), a.table), i.orderID, t.To, i.version, i.at); err != nil {
		return fmt.Errorf("save %s: %w", a.machine.Aggregate, err)
	}
	if t.Emits == "" {
		return nil
	}
	body, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("encode %s: %w", t.Emits, err)
	}
	return a.db.Append(ctx, tx, &settle.Event{
		Type: t.Emits, AggregateType: a.machine.Aggregate, AggregateID: i.orderID, AggregateSeq: i.version,
		BizKey: i.event.BizKey, TraceID: i.event.TraceID, CausationID: i.event.ID, Payload: body,
	})
}
