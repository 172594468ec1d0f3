package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"

	modernc "modernc.org/sqlite"
)

// connector opens connections that queue their writes and remember prepared
// statements. It sits below database/sql, so that both hold for whatever a
// business transaction does, and nobody has to learn another transaction type.
type connector struct {
	driver.Connector
	// queue is nil for connections that only read.
	queue *queue
	// committed is called after each commit; it may not block.
	committed func()
}

func newConnector(dsn string, q *queue, committed func()) (*connector, error) {
	c, err := modernc.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return &connector{Connector: c, queue: q, committed: committed}, nil
}

// sqliteConn is what a connection of the driver can do.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	modernc.HookRegisterer
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	dc, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	opened := &conn{sqliteConn: dc.(sqliteConn), queue: c.queue, committed: c.committed, cached: map[string]*statement{}}
	opened.RegisterRollbackHook(func() { opened.torn = opened.inTx })
	return opened, nil
}

// errTorn is what a transaction answers after SQLite has rolled it back by
// itself (a full disk, a statement whose context ended). SQLite goes on without
// a transaction then: what a caller that overlooked the error writes next would
// be kept alone.
var errTorn = errors.New("the database has rolled the transaction back after an earlier error")

// conn is one connection. database/sql uses it from one goroutine at a time.
type conn struct {
	sqliteConn
	queue     *queue
	committed func()
	inTx      bool
	torn      bool // the transaction is gone although its owner has not ended it
	cached    map[string]*statement
}

// Unwrap gives the driver's own functions access to its connection.
func (c *conn) Unwrap() driver.Conn { return c.sqliteConn }

func (c *conn) Close() error {
	c.forget()
	c.RegisterRollbackHook(nil)
	return c.sqliteConn.Close()
}

// BeginTx waits for its turn among all writers of the file.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if c.queue == nil || opts.ReadOnly {
		return c.sqliteConn.BeginTx(ctx, opts)
	}
	if err := c.queue.acquire(ctx); err != nil {
		return nil, err
	}
	t, err := c.sqliteConn.BeginTx(ctx, opts)
	if err != nil {
		c.queue.release()
		return nil, err
	}
	c.inTx = true
	return &transaction{Tx: t, c: c}, nil
}

// autonomous runs a statement that is a transaction by itself in its turn.
func (c *conn) autonomous(ctx context.Context, run func() (driver.Result, error)) (driver.Result, error) {
	if c.torn {
		return nil, errTorn
	}
	if c.queue == nil || c.inTx {
		return run()
	}
	if err := c.queue.acquire(ctx); err != nil {
		return nil, err
	}
	defer c.queue.release()
	r, err := run()
	if err == nil {
		c.committed()
	}
	return r, err
}

// transaction gives the turn back when it ends, however it ends.
type transaction struct {
	driver.Tx
	c *conn
}

func (t *transaction) Commit() error {
	err := t.Tx.Commit()
	t.end()
	if err == nil {
		t.c.committed()
	}
	return err
}

func (t *transaction) Rollback() error {
	defer t.end()
	return t.Tx.Rollback()
}

func (t *transaction) end() {
	t.c.inTx, t.c.torn = false, false
	t.c.queue.release()
}
