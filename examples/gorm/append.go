package main

import (
	"context"
	"database/sql"
	"fmt"

	"gorm.io/gorm"

	"github.com/settlemq/settle"
)

// appendEvent stores an event in the transaction that tx stands for.
//
// Why this is safe: within db.Transaction GORM's ConnPool is the *sql.Tx that
// all of its statements run in, so that whatever ends it ends the event with
// it. With PrepareStmt the pool is wrapped, and the *sql.Tx inside is the same.
// A nested db.Transaction is a savepoint of that *sql.Tx: rolled back to it,
// the event goes with the rows. Outside of a transaction the pool is a *sql.DB,
// where the event would be committed by itself: that is refused.
func appendEvent(tx *gorm.DB, outbox settle.Outbox[*sql.Tx], e *settle.Event) error {
	pool := tx.Statement.ConnPool
	if prepared, ok := pool.(*gorm.PreparedStmtTX); ok {
		pool = prepared.Tx
	}
	sqlTx, ok := pool.(*sql.Tx)
	if !ok {
		return fmt.Errorf("append event of type %q: %T is no transaction; call it within db.Transaction", e.Type, pool)
	}
	return outbox.Append(tx.Statement.Context, sqlTx, e)
}

// within is db in a transaction that Settle has begun: in a handler, the one
// that also notes that the event is done. GORM must not begin or end one.
func within(ctx context.Context, db *gorm.DB, tx *sql.Tx) *gorm.DB {
	in := db.Session(&gorm.Session{Context: ctx, NewDB: true, SkipDefaultTransaction: true})
	in.Statement.ConnPool = tx
	return in
}
