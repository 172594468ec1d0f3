package shop

import (
	"context"
	"database/sql"
	"errors"

	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// orderService is the order service's database and what it does there. There
// is nothing to undo of what it hears: it has no effect outside.
type orderService struct {
	base
	machine lifecycle.Machine
}

func newOrders(b base) *orderService { return &orderService{base: b, machine: lifecycle.Order()} }

func (s *orderService) reactions() []reaction {
	var all []reaction
	for _, on := range s.machine.Inputs() {
		if lifecycle.IsEvent(on) {
			all = append(all, reaction{on: on, do: s.heard})
		}
	}
	return all
}

// inTx runs do in one transaction.
func inTx(ctx context.Context, db *dial.Database, do func(tx *sql.Tx) error) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
