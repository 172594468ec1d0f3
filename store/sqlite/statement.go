package sqlite

import (
	"context"
	"database/sql/driver"
	"strings"
)

// maxStatements bounds what a connection remembers. Statements with values
// written into them would otherwise fill the memory.
const maxStatements = 256

// statement is a prepared statement that its connection keeps: preparing one
// costs more than running it.
type statement struct {
	driver.Stmt
	busy bool
}

// statement returns the prepared statement of query, marked busy, or nil when
// there is none to be had: several statements in one text, or one that is
// being read from.
func (c *conn) statement(ctx context.Context, query string) (*statement, error) {
	s, ok := c.cached[query]
	if !ok {
		if strings.Contains(query, ";") {
			return nil, nil
		}
		prepared, err := c.sqliteConn.PrepareContext(ctx, query)
		if err != nil {
			return nil, err
		}
		if len(c.cached) >= maxStatements {
			c.forget()
		}
		s = &statement{Stmt: prepared}
		// The text may be part of a larger one that the caller still holds.
		c.cached[strings.Clone(query)] = s
	}
	if s.busy {
		return nil, nil
	}
	s.busy = true
	return s, nil
}

// forget closes all statements but those in use.
func (c *conn) forget() {
	for text, s := range c.cached {
		if !s.busy {
			// Closing reports the statement's last error again.
			_ = s.Close()
			delete(c.cached, text)
		}
	}
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.autonomous(ctx, func() (driver.Result, error) {
		s, err := c.statement(ctx, query)
		if err != nil {
			return nil, err
		}
		if s == nil {
			return c.sqliteConn.ExecContext(ctx, query, args)
		}
		defer func() { s.busy = false }()
		return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	})
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.torn {
		return nil, errTorn
	}
	s, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.sqliteConn.QueryContext(ctx, query, args)
	}
	r, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err != nil {
		s.busy = false
		return nil, err
	}
	return &result{sqliteRows: r.(sqliteRows), s: s}, nil
}

// sqliteRows is what rows of the driver can do.
type sqliteRows interface {
	driver.Rows
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeLength
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
	driver.RowsColumnTypeScanType
}

// result frees its statement when it has been read.
type result struct {
	sqliteRows
	s *statement
}

func (r *result) Close() error {
	err := r.sqliteRows.Close()
	r.s.busy = false
	return err
}

// PrepareContext prepares a statement that the caller keeps.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.sqliteConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return &held{Stmt: s, c: c}, nil
}

// held is a statement that the caller keeps.
type held struct {
	driver.Stmt
	c *conn
}

func (h *held) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return h.c.autonomous(ctx, func() (driver.Result, error) {
		return h.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	})
}

func (h *held) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if h.c.torn {
		return nil, errTorn
	}
	return h.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}
