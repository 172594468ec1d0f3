package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/settlemq/settle/doctor"
)

// SQLSTATEs of a server that lets nobody in, or of a pooler before it.
const (
	stateNotReady = "57P03"
	stateProtocol = "08P01"
)

// unreachable says in one sentence why there is no connection, and what mends
// it. No password is in it.
func unreachable(err error, cfg *pgx.ConnConfig) error {
	user, database := ident(cfg.User), ident(cfg.Database)
	at := net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
	why := func(cause, fix string) error {
		return &connectError{text: fmt.Sprintf("connect to %s as %s, database %s: %s; %s", at, user, database, cause, fix), err: err}
	}
	var e *pgconn.PgError
	var dns *net.DNSError
	switch {
	case errors.As(err, &e):
		if fix := refusal(e, user, database); fix != "" {
			return why(e.Message, fix)
		}
		return why(e.Message, "the server's log says more")
	case errors.As(err, &dns):
		return why("the name of the host can't be resolved", "put the right host into the URL")
	case errors.Is(err, context.DeadlineExceeded), pgconn.Timeout(err):
		return why("no answer in time", "look at the network, a firewall, or a server that was stopped")
	case errors.Is(err, context.Canceled):
		return err
	}
	cause := causeOf(err)
	switch {
	case ofTLS(cause):
		return why(cause, mendTLS)
	case strings.Contains(cause, "connection refused"):
		return why("nothing listens there", "start the server, or put the right host and port into the URL")
	}
	return why(cause, "is it a PostgreSQL server?")
}

// refusal is what mends a server's no; empty for one that is not known.
func refusal(e *pgconn.PgError, user, database string) string {
	switch e.Code {
	case statePassword:
		return fmt.Sprintf("put the right password into the URL, or ALTER ROLE %s PASSWORD '…'", user)
	case stateNoPassword:
		return fmt.Sprintf("let the role in: ALTER ROLE %s LOGIN, or a line for it and this host in pg_hba.conf", user)
	case stateNoDatabase:
		return fmt.Sprintf("CREATE DATABASE %s OWNER %s", database, user)
	case stateNoRight:
		return fmt.Sprintf("GRANT CONNECT ON DATABASE %s TO %s", database, user)
	case stateTooMany:
		return "end idle sessions, raise max_connections, or put a pooler in transaction mode before the server"
	case stateNotReady:
		return "it is starting or stopping; try again"
	case stateProtocol:
		if strings.Contains(e.Message, "startup parameter") {
			return fmt.Sprintf("a pooler does not pass it on: add it to PgBouncer's ignore_startup_parameters, and ALTER ROLE %s SET it", user)
		}
	}
	return ""
}

const probeTransaction = `SELECT pg_backend_pid()`

// pooler: whoever changes the server's process between two statements of one
// transaction, or refuses it, pools statements. PgBouncer ends the connection
// then, so it is tried on another one.
func (x *examination) pooler(ctx context.Context) (doctor.Diagnosis, error) {
	if !x.pooled {
		return doctor.Sound("none: the session is the server's own"), nil
	}
	conn, err := pgx.ConnectConfig(ctx, x.conn.Config())
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	pids := map[uint32]bool{}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for range 3 {
			var pid uint32
			if err := tx.QueryRow(ctx, probeTransaction).Scan(&pid); err != nil {
				return err
			}
			pids[pid] = true
		}
		return nil
	})
	fix := "PgBouncer: pool_mode = transaction"
	var e *pgconn.PgError
	switch {
	case errors.As(err, &e):
		x.torn = true
		return doctor.Diagnose(doctor.Bad, "a pooler that refuses transactions: "+e.Message, fix), nil
	case err != nil:
		return doctor.Diagnosis{}, err
	case len(pids) > 1:
		x.torn = true
		return doctor.Diagnose(doctor.Bad, "a pooler that gives each statement another session, also inside a transaction", fix), nil
	}
	return doctor.Sound("a pooler that keeps transactions together"), nil
}
