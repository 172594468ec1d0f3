package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// fault is what an error says about the next try.
type fault int

const (
	// faultOther: nothing. The statement, or whoever wrote it, may be wrong.
	faultOther fault = iota
	// faultConflict: another transaction was in the way. Nothing is kept.
	faultConflict
	// faultLost: the connection, or the server, has gone. Nothing was kept.
	faultLost
	// faultUnknown: it went while it committed.
	faultUnknown
	// faultServer: the server can't, whoever asks. Nothing was kept, and at once
	// it can't either.
	faultServer
)

// Numbers of errors of transactions that may be repeated. After a deadlock the
// server has rolled back all of the transaction, after a lock time-out one
// statement of it, unless innodb_rollback_on_timeout is set: both are taken as
// the end of it.
const (
	codeDeadlock    = 1213
	codeLockTimeout = 1205
	codeNotFree     = 3572 // NOWAIT
	codeChanged     = 1020 // by another transaction since it was read
	codeInterrupted = 1317 // KILL QUERY
	codeGroupRefuse = 3101 // a certification of group replication; Galera's is a deadlock
	codeRedefined   = 1412 // a table was changed since the transaction began
	codeReprepare   = 1615 // or since the statement was prepared
	codeNoSavepoint = 1305
)

// Numbers of errors of a server that goes, or has ended the connection.
const (
	codeShutdown   = 1053
	codeKilled     = 1927
	codeIdleClosed = 4031
	codeAborting   = 1152
	codeNetRead    = 1158
	codeNetReadOut = 1159
	codeNetWrite   = 1160
	codeNetWrtOut  = 1161
	codeNewAbort   = 1184
	codeWasKilled  = 3169
)

// Numbers with which a client, or what stands between it and the server, speaks
// of a server that does not answer.
const (
	codeNoSocket  = 2002
	codeNoHost    = 2003
	codeGoneAway  = 2006
	codeLostQuery = 2013
	codeLost      = 2055
)

// Numbers of errors of a commit of which the cluster that was asked may know
// more than the node that answers.
const (
	codeCommit    = 1180
	codeGroupHook = 3100
)

// Numbers of errors of a server that can't.
const (
	codeUserTooMany  = 1203
	codeUserLimit    = 1226
	codeReadOnlyMode = 1836
	codeReadOnlyTx   = 1792 // a session that can't write
	codeTableFull    = 1114
	codeWriteFile    = 3
	codeWriteErrno   = 1026
	codeStorage      = 1030
	codeLocksFull    = 1206
	codeNoMemory     = 1037
	codeOutOfMemory  = 1041
	codeNotReady     = 1047 // a node that is not of the cluster
	codeTempFull     = 1878
	codeHostBlocked  = 1129 // after too many connections that came to nothing
	codeNoThread     = 1135
	codeTooManyTrx   = 1637
	codeUnavailable  = 3168
	codeNoBackend    = 9001 // of a proxy that has no server for it
)

// commitError is what a commit returned. Unless the server has answered it is
// not known whether the transaction was kept.
type commitError struct{ err error }

func (c *commitError) Error() string { return "commit consumed events: " + c.err.Error() }
func (c *commitError) Unwrap() error { return c.err }

func faultOf(err error) fault {
	var commit *commitError
	committing := errors.As(err, &commit)
	var e *driver.MySQLError
	switch {
	case err == nil:
		return faultOther
	case errors.Is(err, errStale), errors.Is(err, errRolledBack):
		return faultConflict
	case errors.As(err, &e):
		return faultOfCode(e.Number, committing)
	case committing:
		return faultUnknown
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return faultOther
	case gone(err):
		return faultLost
	}
	return faultOther
}

func faultOfCode(code uint16, committing bool) fault {
	switch code {
	case codeDeadlock, codeLockTimeout, codeNotFree, codeChanged, codeGroupRefuse, codeRedefined, codeReprepare:
		return faultConflict
	case codeInterrupted, codeShutdown, codeKilled, codeWasKilled, codeIdleClosed, codeAborting, codeNewAbort, codeNetRead, codeNetReadOut, codeNetWrite,
		codeNetWrtOut, codeNoSocket, codeNoHost, codeGoneAway, codeLostQuery, codeLost, codeCommit, codeGroupHook:
		if committing {
			return faultUnknown
		}
		return faultLost
	case codeTooMany, codeUserTooMany, codeUserLimit, codeReadOnly, codeReadOnlyMode, codeReadOnlyTx, codeDiskFull, codeTableFull, codeWriteFile,
		codeWriteErrno, codeStorage, codeLocksFull, codeNoMemory, codeOutOfMemory, codeNotReady, codeTempFull, codeHostBlocked, codeNoThread,
		codeTooManyTrx, codeUnavailable, codeNoBackend:
		return faultServer
	}
	return faultOther
}

// gone reports whether err is of a connection that can't be used any more.
func gone(err error) bool {
	var n net.Error
	return errors.Is(err, errLost) || errors.Is(err, sqldriver.ErrBadConn) || errors.Is(err, driver.ErrInvalidConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &n)
}

// jittered is between half of d and d.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
