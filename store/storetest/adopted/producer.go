package adopted

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/settlemq/settle"
)

// NotOfAClassicTable are the rules of the suite of outboxes that can't be asked of
// a table of another owner, into which services insert by SQL of their own.
func NotOfAClassicTable() map[string]string {
	const refused = "Append is not there: the owner's unique index refuses the row, and the transaction with it"
	return map[string]string{
		"an event id that is in the outbox is refused and leaves nothing of its call": refused,
		"an event id twice in one call is refused":                                    refused,
		"an invalid event is refused by field and the transaction goes on":            "Append is not there: what can't be sent is found when it is read, and becomes a dead letter",
		"every field of an event comes back":                                          "the classic table has no column for most of them",
	}
}

// HarmlessInAClassicTable are rules of which a store may be broken and do no harm
// there.
func HarmlessInAClassicTable() map[string]string {
	return map[string]string{
		"what a slow destination has not read is not deleted": "a checkpoint that says otherwise does no harm: only rows whose status says SENT are deleted",
		"a cold hole that is filled late is listed once":      "one that stays listed does no harm: a row whose status says SENT is not read again",
	}
}

// Producer inserts as a service does that knows nothing of Settle. Its clock is
// the service's own. What topic an event is for it says by its type of aggregate.
type Producer struct {
	Dialect Dialect
	Table   string
	Now     func() time.Time
}

const produced = `INSERT INTO %s (%sevent_id, aggregate_type, aggregate_id, event_type, payload, status, created_at, updated_at, next_retry_time) VALUES (%s?, ?, ?, ?, ?, 'PENDING', '%[4]s', '%[4]s', '%[4]s')`

// Append implements settle.Outbox.
func (p Producer) Append(ctx context.Context, tx *sql.Tx, events ...*settle.Event) error {
	for _, e := range events {
		if _, err := tx.ExecContext(ctx, p.insert("", ""), p.values(e)...); err != nil {
			return err
		}
	}
	return nil
}

// InsertAt stores an event at an id that its program has chosen.
func (p Producer) InsertAt(ctx context.Context, db *sql.DB, id int64, e *settle.Event) error {
	_, err := db.ExecContext(ctx, p.insert("id, ", fmt.Sprint(id, ", ")), p.values(e)...)
	return err
}

func (p Producer) insert(column, value string) string {
	return p.Dialect.sql(fmt.Sprintf(produced, p.Table, column, value, stamp(p.Now(), time.UTC)))
}

func (p Producer) values(e *settle.Event) []any {
	return []any{cmp.Or(e.ID, settle.NewID()), cmp.Or(e.Topic, e.AggregateType), e.AggregateID, e.Type, e.Payload}
}
