package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// readOnly returns the connections of a pool as ones that can't write. Behind a
// pooler a session can't be told so: every statement is in a transaction that is.
func readOnly(p *pgxpool.Pool) *sql.DB {
	db := sql.OpenDB(readConnector{stdlib.GetPoolConnector(p)})
	db.SetMaxIdleConns(0) // the pool keeps them
	return db
}

type readConnector struct{ driver.Connector }

func (r readConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := r.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &readConn{Conn: c.(*stdlib.Conn)}, nil
}

// readConn is a connection whose transactions are read-only; open is true in one.
type readConn struct {
	*stdlib.Conn
	open bool
}

func (c *readConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	o.ReadOnly = true
	tx, err := c.Conn.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	c.open = true
	return &readTx{Tx: tx, c: c}, nil
}

type readTx struct {
	driver.Tx
	c *readConn
}

func (t *readTx) Commit() error {
	t.c.open = false
	return t.Tx.Commit()
}

func (t *readTx) Rollback() error {
	t.c.open = false
	return t.Tx.Rollback()
}

func (c *readConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.open {
		return c.Conn.ExecContext(ctx, query, args)
	}
	tx, err := c.BeginTx(ctx, driver.TxOptions{})
	if err != nil {
		return nil, err
	}
	res, err := c.Conn.ExecContext(ctx, query, args)
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return res, tx.Commit()
}

func (c *readConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.open {
		return c.Conn.QueryContext(ctx, query, args)
	}
	tx, err := c.BeginTx(ctx, driver.TxOptions{})
	if err != nil {
		return nil, err
	}
	rows, err := c.Conn.QueryContext(ctx, query, args)
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return &readRows{Rows: rows.(*stdlib.Rows), tx: tx}, nil
}

// readRows end their transaction.
type readRows struct {
	*stdlib.Rows
	tx driver.Tx
}

func (r *readRows) Close() error { return errors.Join(r.Rows.Close(), r.tx.Rollback()) }

func (c *readConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// PrepareContext prepares nothing: what is prepared in one session is not known
// in the next.
func (c *readConn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	return &readStmt{c: c, query: query}, nil
}

type readStmt struct {
	c     *readConn
	query string
}

func (s *readStmt) Close() error  { return nil }
func (s *readStmt) NumInput() int { return -1 }

func (s *readStmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.c.ExecContext(context.Background(), s.query, numbered(args))
}

func (s *readStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.c.ExecContext(ctx, s.query, args)
}

func (s *readStmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.c.QueryContext(context.Background(), s.query, numbered(args))
}

func (s *readStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.c.QueryContext(ctx, s.query, args)
}

func numbered(args []driver.Value) []driver.NamedValue {
	out := make([]driver.NamedValue, len(args))
	for i, a := range args {
		out[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return out
}
