package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/settlemq/settle"
)

// By the whole primary key, because a scan would wait for rows of others.
const guardPartition = `SELECT owner, epoch, generation, position FROM t_consume_partition
WHERE consumer_group = ? AND topic = ? AND number = ? FOR UPDATE`

// guard refuses an owner that has been replaced, and a stream that is not the
// one of the floor. The rows stay locked, in one order, until the transaction
// ends: a takeover comes before it or after.
func guard(db context.Context, tx *sql.Tx, w *settle.Work) error {
	for _, m := range inOrder(w.Floors) {
		var owner, generation string
		var epoch, position int64
		p := &m.Partition
		err := tx.QueryRowContext(db, guardPartition, w.Group, p.Topic, p.Number).Scan(&owner, &epoch, &generation, &position)
		switch {
		case errors.Is(err, sql.ErrNoRows), err == nil && (owner != p.Owner || epoch != p.Epoch):
			return fmt.Errorf("partition %d of %s: %w", p.Number, p.Topic, settle.ErrFenced)
		case err != nil:
			return fmt.Errorf("read floor of partition %d of %s: %w", p.Number, p.Topic, err)
		case generation != "" && generation != m.To.Generation:
			return fmt.Errorf("partition %d of %s was read up to %d of %s, now it is %s: %w",
				p.Number, p.Topic, position, generation, m.To.Generation, settle.ErrNewGeneration)
		}
	}
	return nil
}

func inOrder(floors []settle.FloorMove) []settle.FloorMove {
	if len(floors) < 2 {
		return floors
	}
	return slices.SortedFunc(slices.Values(floors), func(a, b settle.FloorMove) int {
		return cmp.Or(cmp.Compare(a.Partition.Topic, b.Partition.Topic), cmp.Compare(a.Partition.Number, b.Partition.Number))
	})
}

const moveFloor = `UPDATE t_consume_partition SET position = ?, event_id = ?, generation = ?
WHERE consumer_group = ? AND topic = ? AND number = ? AND owner = ? AND epoch = ? AND position < ?`

// raiseAll moves floors that the guard has let pass. A floor never goes back.
// An event id that no column holds is left out: it would be taken for another.
func raiseAll(db context.Context, tx *sql.Tx, w *settle.Work) error {
	for _, m := range w.Floors {
		p, event := &m.Partition, m.To.EventID
		if fit(event) != event {
			event = ""
		}
		if _, err := tx.ExecContext(db, moveFloor, m.To.Position, event, m.To.Generation, w.Group, p.Topic, p.Number, p.Owner, p.Epoch, m.To.Position); err != nil {
			return fmt.Errorf("move floor of partition %d of %s: %w", p.Number, p.Topic, err)
		}
	}
	return nil
}
