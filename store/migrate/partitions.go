package migrate

import (
	"context"
	"errors"
	"fmt"
)

// PartitionIDs is how many ids a partition of the outbox takes where nobody says.
const PartitionIDs = 1_000_000

// ErrOneTable means that an outbox can't be divided into partitions. Nothing was
// changed.
var ErrOneTable = errors.New("only an outbox of Settle's own in PostgreSQL can be divided into partitions")

// ErrNotDivided means that an outbox stays as it is, because something besides
// Settle depends on its table.
var ErrNotDivided = errors.New("it would go on with the table as it was")

// Partitions divides the outbox into tables by ranges of ids, so that what is
// done goes a table at a time.
type Partitions interface {
	// Width returns how many ids a partition takes; 0 where the outbox is one
	// table, or is not there.
	Width(ctx context.Context) (int64, error)
	// Steps returns, in order, the SQL that leads to partitions of so many ids,
	// or with 0 to one table: all of it is one transaction. None where the outbox
	// is so already; partitions keep their width.
	Steps(ctx context.Context, ids int64) ([]string, error)
	// Change runs them and returns them. It waits ten seconds at most for whoever
	// uses the table, and keeps everybody from it until it has ended.
	Change(ctx context.Context, ids int64) ([]string, error)
}

// PartitionWidth returns how many ids a partition of the outbox takes; 0 where
// it is one table, or there is none.
func (s *Schema) PartitionWidth(ctx context.Context) (int64, error) {
	if s.s.DB == nil || s.s.Partitions == nil {
		return 0, nil
	}
	n, err := s.s.Partitions.Width(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the partitions of the outbox: %w", err)
	}
	return n, nil
}

// PlanPartitions returns the SQL that leads from the outbox as it is, or, where
// there is none yet, from that which Plan makes, to partitions of so many ids or
// with 0 to one table.
func (s *Schema) PlanPartitions(ctx context.Context, ids int64) ([]string, error) {
	if s.s.Partitions == nil {
		return nil, ErrOneTable
	}
	steps, err := s.s.Partitions.Steps(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("plan the partitions of the outbox: %w", err)
	}
	return steps, nil
}

// ChangePartitions leads there and returns the SQL that did it. The schema is
// the newest.
//
// Crash here: all of it was one transaction.
func (s *Schema) ChangePartitions(ctx context.Context, ids int64) ([]string, error) {
	if s.s.Partitions == nil {
		return nil, ErrOneTable
	}
	steps, err := s.s.Partitions.Change(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("change the partitions of the outbox: %w", err)
	}
	return steps, nil
}
