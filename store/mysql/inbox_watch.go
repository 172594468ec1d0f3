package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// watched is a connection of consumers. It refuses statements that would end
// the transaction of an event, and notes what has happened to it: the driver
// shows nobody the server's flags.
type watched struct {
	mysqlConn
	// refused is what was refused; err the first error that says that the
	// transaction, or the server, is in trouble.
	refused, err error
	// doubtful: an error, or a statement that may have ended the transaction.
	doubtful, called bool
	// reading is how many results are open.
	reading int
}

// mysqlConn is what the driver's connections do.
type mysqlConn interface {
	sqldriver.Conn
	sqldriver.Pinger
	sqldriver.ExecerContext
	sqldriver.QueryerContext
	sqldriver.ConnPrepareContext
	sqldriver.ConnBeginTx
	sqldriver.NamedValueChecker
	sqldriver.SessionResetter
	sqldriver.Validator
}

// connector makes connections that are watched.
type connector struct{ sqldriver.Connector }

func (c connector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	inner, ok := conn.(mysqlConn)
	if !ok {
		return nil, errors.Join(errors.New("the driver's connections can't be watched"), conn.Close())
	}
	return &watched{mysqlConn: inner}, nil
}

// consumers opens the pool of consumers' transactions. A session commits
// nothing by itself: what a handler does behind the end of its transaction is
// rolled back, too.
func (s *Store) consumers(cfg *driver.Config) (*sql.DB, error) {
	quiet := silenceTimes * s.cfg.IdleTimeout
	set := s.session(false, false)
	set["autocommit"] = "0"
	set[s.server.isolation()] = "'READ-COMMITTED'"
	set["innodb_lock_wait_timeout"] = seconds(s.cfg.LockTimeout)
	set["wait_timeout"] = seconds(quiet)
	cfg = cfg.Clone()
	cfg.Params = set
	c, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector{c})
	db.SetMaxOpenConns(s.cfg.MaxConns)
	db.SetMaxIdleConns(s.cfg.MaxConns)
	db.SetConnMaxIdleTime(min(quiet/2, time.Minute))
	return db, nil
}

// silenceTimes is for how many of IdleTimeout a handler may say nothing to the
// database.
const silenceTimes = 6

// watch begins to take notes anew.
func (w *watched) watch() { w.refused, w.err, w.doubtful, w.called = nil, nil, false, false }

func (w *watched) admit(query string) error {
	switch endingOf(query) {
	case endsAll:
		w.refused = fmt.Errorf("a handler must not end the transaction of its event, and this would commit it or roll it back: %q; do it before, outside of handlers", head(query))
		return w.refused
	case mayEnd:
		w.doubtful, w.called = true, true
	}
	return nil
}

// head is how a statement begins.
func head(query string) string {
	if r := []rune(query); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return query
}

func (w *watched) note(err error) {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, sqldriver.ErrSkip) {
		return
	}
	w.doubtful = true
	if w.err == nil && faultOf(err) != faultOther {
		w.err = err
	}
}

func (w *watched) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	if err := w.admit(query); err != nil {
		return nil, err
	}
	r, err := w.mysqlConn.ExecContext(ctx, query, args)
	w.note(err)
	return r, err
}

func (w *watched) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	if err := w.admit(query); err != nil {
		return nil, err
	}
	return w.rows(w.mysqlConn.QueryContext(ctx, query, args))
}

func (w *watched) PrepareContext(ctx context.Context, query string) (sqldriver.Stmt, error) {
	if err := w.admit(query); err != nil {
		return nil, err
	}
	s, err := w.mysqlConn.PrepareContext(ctx, query)
	w.note(err)
	if inner, ok := s.(mysqlStmt); ok && err == nil {
		return &watchedStmt{inner, w, endingOf(query) == mayEnd}, nil
	}
	return s, err
}

// mysqlStmt is what the driver's statements do.
type mysqlStmt interface {
	sqldriver.Stmt
	sqldriver.StmtExecContext
	sqldriver.StmtQueryContext
	sqldriver.NamedValueChecker
}

type watchedStmt struct {
	mysqlStmt
	w      *watched
	mayEnd bool
}

func (s *watchedStmt) ExecContext(ctx context.Context, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	s.w.doubtful, s.w.called = s.w.doubtful || s.mayEnd, s.w.called || s.mayEnd
	r, err := s.mysqlStmt.ExecContext(ctx, args)
	s.w.note(err)
	return r, err
}

func (s *watchedStmt) QueryContext(ctx context.Context, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	s.w.doubtful, s.w.called = s.w.doubtful || s.mayEnd, s.w.called || s.mayEnd
	return s.w.rows(s.mysqlStmt.QueryContext(ctx, args))
}

// mysqlRows is what the driver's results do.
type mysqlRows interface {
	sqldriver.RowsNextResultSet
	sqldriver.RowsColumnTypeDatabaseTypeName
	sqldriver.RowsColumnTypeNullable
	sqldriver.RowsColumnTypePrecisionScale
	sqldriver.RowsColumnTypeScanType
}

type watchedRows struct {
	mysqlRows
	w *watched
}

func (w *watched) rows(r sqldriver.Rows, err error) (sqldriver.Rows, error) {
	w.note(err)
	inner, ok := r.(mysqlRows)
	if err != nil || !ok {
		return r, err
	}
	w.reading++
	return &watchedRows{inner, w}, nil
}

func (r *watchedRows) Next(dest []sqldriver.Value) error {
	err := r.mysqlRows.Next(dest)
	r.w.note(err)
	return err
}

func (r *watchedRows) Close() error {
	r.w.reading--
	err := r.mysqlRows.Close()
	r.w.note(err)
	return err
}
