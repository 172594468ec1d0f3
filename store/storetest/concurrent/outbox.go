package concurrent

import (
	"context"
	"database/sql"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

// Outbox is an empty outbox as many writers see it, by transactions of any kind.
type Outbox[Tx any] struct {
	Dialect
	Outbox           settle.Outbox[Tx]
	Begin            func(ctx context.Context) (Tx, error)
	Commit, Rollback func(ctx context.Context, tx Tx) error
	// Exec runs a statement in tx, Number a query of one number.
	Exec   func(ctx context.Context, tx Tx, query string, args ...any) error
	Number func(ctx context.Context, tx Tx, query string, args ...any) (int64, error)
	// DB is for statements by themselves; what Reader reads is committed.
	DB, Reader *sql.DB
	// Logs are those of the relays on it, each as from a process of its own.
	Logs []relay.Store

	// Insert appends events of key, the first of which is its n-th, in a way that
	// only this database has, counts them in t_key but for the first, and names
	// them after name. Defaults to nil: there is none.
	Insert func(ctx context.Context, tx Tx, name, key string, n int64) error
	// End ends tx in a way that only this database has. Defaults to nil: there is
	// none.
	End func(ctx context.Context, tx Tx, name string, undo bool) error
	// Hasty is a statement by which a transaction does not wait for the disk when
	// it commits. Defaults to empty: there is none.
	Hasty string
	// Undone tells the error of a transaction that the database has rolled back.
	// Defaults to nil: it does so to none.
	Undone func(err error) bool
}

// SQL is the outbox of a process for transactions of database/sql. Its relay is
// the process's own.
func SQL(p Process) Outbox[*sql.Tx] {
	return Outbox[*sql.Tx]{
		Dialect: p.Dialect, Outbox: p.Outbox, DB: p.DB, Reader: p.Reader, Logs: []relay.Store{p.Log},
		Begin:    func(ctx context.Context) (*sql.Tx, error) { return p.DB.BeginTx(ctx, nil) },
		Commit:   func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
		Rollback: func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
		Exec: func(ctx context.Context, tx *sql.Tx, query string, args ...any) error {
			_, err := tx.ExecContext(ctx, query, args...)
			return err
		},
		Number: func(ctx context.Context, tx *sql.Tx, query string, args ...any) (n int64, err error) {
			err = tx.QueryRowContext(ctx, query, args...).Scan(&n)
			return n, err
		},
	}
}

// in runs f in a transaction that commits unless f fails.
func (o *Outbox[Tx]) in(ctx context.Context, f func(tx Tx) error) error {
	tx, err := o.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = o.Rollback(context.WithoutCancel(ctx), tx) }()
	if err := f(tx); err != nil {
		return err
	}
	return o.Commit(ctx, tx)
}

const (
	countUp = `UPDATE t_key SET n = n + 1 WHERE name = ?`
	counted = `SELECT n FROM t_key WHERE name = ?`
)

// count takes the next number of a key, and holds its row.
func (o *Outbox[Tx]) count(ctx context.Context, tx Tx, key string) (int64, error) {
	if err := o.Exec(ctx, tx, o.sql(countUp), key); err != nil {
		return 0, err
	}
	return o.Number(ctx, tx, o.sql(counted), key)
}

// append stores one event of key.
func (o *Outbox[Tx]) append(ctx context.Context, tx Tx, id, kind, key string, n int64) error {
	return o.Outbox.Append(ctx, tx, &settle.Event{ID: id, Type: kind, AggregateID: key, AggregateSeq: n, Payload: []byte("{}")})
}
