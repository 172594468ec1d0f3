package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// fault is what an error says about the next try.
type fault int

const (
	// faultOther: nothing. The statement, or whoever wrote it, may be wrong.
	faultOther fault = iota
	// faultConflict: another transaction was in the way. Nothing was kept.
	faultConflict
	// faultLost: the connection, or the server, has gone. Nothing was kept.
	faultLost
	// faultUnknown: it went while it committed.
	faultUnknown
	// faultServer: the server can't, whoever asks. Nothing was kept, and at once
	// it can't either.
	faultServer
)

// SQLSTATEs of transactions that may be repeated.
const (
	stateSerialization    = "40001"
	stateDeadlock         = "40P01"
	stateLockTimeout      = "55P03"
	stateShutdown         = "57P01"
	stateCrash            = "57P02"
	stateCannotConnectNow = "57P03"
	stateIdleTooLong      = "25P03"
	stateNotSupported     = "0A000"
	stateOwnLimit         = "53400" // of temporary files, for instance
	classConnection       = "08"
	classConstraint       = "23"
	classResources        = "53"
	classSystem           = "58"
)

// replanned is the server's routine that finds that a prepared statement has
// other columns since somebody changed a table. Its message is in the server's
// language, and its state is that of much else.
const replanned = "RevalidateCachedQuery"

// commitError is what a commit returned. Unless the server has answered it is
// not known whether the transaction was kept.
type commitError struct{ err error }

func (c *commitError) Error() string { return "commit consumed events: " + c.err.Error() }
func (c *commitError) Unwrap() error { return c.err }

func faultOf(err error) fault {
	var commit *commitError
	committing := errors.As(err, &commit)
	var e *pgconn.PgError
	switch {
	case err == nil:
		return faultOther
	case errors.Is(err, errStale), errors.Is(err, pgx.ErrTxCommitRollback):
		return faultConflict
	case errors.As(err, &e):
		if e.Code == stateNotSupported && e.Routine == replanned {
			return faultConflict // the driver prepares it anew
		}
		return faultOfState(e.Code, committing)
	case committing:
		return faultUnknown
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return faultOther
	case gone(err):
		return faultLost
	}
	return faultOther
}

func faultOfState(code string, committing bool) fault {
	switch {
	case code == stateSerialization || code == stateDeadlock || code == stateLockTimeout || code == stateIdleTooLong:
		return faultConflict
	case committing && strings.HasPrefix(code, classConstraint):
		// Which item has broken it is found in smaller pieces.
		return faultConflict
	case code == stateShutdown || code == stateCrash || code == stateCannotConnectNow || strings.HasPrefix(code, classConnection):
		if committing {
			return faultUnknown
		}
		return faultLost
	case code == stateReadOnly || strings.HasPrefix(code, classSystem), strings.HasPrefix(code, classResources) && code != stateOwnLimit:
		return faultServer
	}
	return faultOther
}

// gone reports whether err is of a connection that can't be used any more.
func gone(err error) bool {
	var n net.Error
	return errors.Is(err, errLost) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.As(err, &n) || pgconn.SafeToRetry(err) || errors.Is(err, pgconn.ErrConnClosed)
}

// jittered is between half of d and d.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
