package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/doctor"
)

func (x *examination) sessionChecks() []check {
	return []check{
		{"relay", "events wait while no relay leads; leaders that die one after the other may be killed by an event", x.relay},
		{"old_relay", "a second relay of another kind sends events twice and out of order", x.oldRelay},
		{"open_transactions", "an old transaction keeps dead rows from being vacuumed everywhere, and may own an id that the relay waits to see", x.openTransactions},
		{"replication_slots", "a slot that nobody reads keeps WAL until the disk is full", x.slots},
		{"connections", "a process of Settle that gets no connection stands still", x.connections},
	}
}

const leaders = `SELECT l.lane, l.owner, l.epoch, l.clean, l.deaths, coalesce((SELECT r.expires_at > clock_timestamp() FROM settle_renewal r
 WHERE r.scope = '` + relayScope + `' AND r.name = l.lane::text AND r.epoch = l.epoch ORDER BY r.renewal_no DESC LIMIT 1), false)
FROM t_outbox_lease l WHERE NOT l.ended ORDER BY l.lane`

func (x *examination) relay(ctx context.Context) (doctor.Diagnosis, error) {
	var has bool
	if err := x.conn.QueryRow(ctx, x.of(hasCheckpoints)).Scan(&has); err != nil {
		return doctor.Diagnosis{}, err
	}
	if !has {
		return doctor.Sound("no relay has been here"), nil
	}
	var p problems
	var good []string
	var lane, deaths int
	var owner string
	var epoch int64
	var clean, runs bool
	err := x.each(ctx, []any{&lane, &owner, &epoch, &clean, &deaths, &runs}, func() {
		switch {
		case deaths > 0:
			p.add(fmt.Sprintf("lane %d: the %d leaders before %s died soon after they took over", lane, deaths, owner), "look into its log; settle dead list shows an event that kills")
		case clean:
			good = append(good, fmt.Sprintf("lane %d: given back by %s, epoch %d", lane, owner, epoch))
		case runs:
			good = append(good, fmt.Sprintf("lane %d: %s leads, epoch %d", lane, owner, epoch))
		default:
			p.add(fmt.Sprintf("lane %d: %s ended without giving the lease back, and nobody has taken over", lane, owner), "start settle serve")
		}
	}, leaders)
	if len(good) == 0 {
		good = []string{"no relay has been here"}
	}
	return p.diagnosis(doctor.Warn, "%s", strings.Join(good, "; ")), err
}

const (
	rowsUpdated = `SELECT coalesce(n_tup_upd, 0) FROM pg_stat_user_tables WHERE relid = to_regclass('t_outbox_event')`

	// What another relay has taken: rows that ours has not read and that wait no more.
	takenByOthers = `SELECT count(*) FROM (SELECT 1 FROM t_outbox_event WHERE id > $1 AND upper(status::text) NOT IN ('PENDING', 'NEW', 'INIT', 'RETRY', 'FAILED') LIMIT 100000) taken`

	// Sessions of others whose last statement is that of a relay which works on rows.
	relaySessions = `SELECT pid, coalesce(usename::text, ''), coalesce(application_name, '') FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
AND (query ~* '\mupdate\s+(only\s+)?("?\w+"?\.)?"?t_outbox_event\M' OR query ~* '\mt_outbox_event\M.*\mskip\s+locked\M') ORDER BY pid LIMIT 5`
)

func (x *examination) oldRelay(ctx context.Context) (doctor.Diagnosis, error) {
	evidence, err := x.foreignHands(ctx)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	if evidence == "" {
		return doctor.Sound("none seen%s", x.hidden(ctx)), nil
	}
	var sessions []string
	var pid int
	var user, name string
	err = x.each(ctx, []any{&pid, &user, &name}, func() {
		sessions = append(sessions, fmt.Sprintf("process %d of %s %s", pid, user, name))
	}, relaySessions)
	if len(sessions) > 0 {
		evidence += "; it may be " + strings.TrimSpace(strings.Join(sessions, ", "))
	}
	return doctor.Diagnose(doctor.Bad, evidence, "stop the relay that was there before, then let Settle's run (SELECT usename, application_name, client_addr, query FROM pg_stat_activity shows who it is)"), err
}

// foreignHands says what shows that somebody else works on the rows.
func (x *examination) foreignHands(ctx context.Context) (string, error) {
	if x.outbox == nil {
		return "", nil
	}
	if x.adopted != nil {
		return x.foreignTraces(ctx)
	}
	if !x.outbox.classic { // nothing of Settle updates it
		var n int64
		err := x.conn.QueryRow(ctx, x.of(rowsUpdated)).Scan(&n)
		if errors.Is(err, pgx.ErrNoRows) {
			return "", nil
		}
		if err != nil || n == 0 {
			return "", err
		}
		return fmt.Sprintf("rows of t_outbox_event were updated %d times", n), nil
	}
	readers, err := x.position(ctx)
	if err != nil || len(readers) == 0 {
		return "", err
	}
	highest := int64(0)
	for _, r := range readers {
		highest = max(highest, r.Cursor)
	}
	var n int64
	if err := x.conn.QueryRow(ctx, x.of(takenByOthers), highest).Scan(&n); err != nil || n == 0 {
		return "", err
	}
	return fmt.Sprintf("%d rows that Settle's relay has not read have left PENDING", n), nil
}

const maySeeSessions = `SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')`

// hidden says what a role without the right does not see; empty for one that
// has it.
func (x *examination) hidden(ctx context.Context) string {
	var may bool
	if err := x.conn.QueryRow(ctx, maySeeSessions).Scan(&may); err != nil || may {
		return ""
	}
	return fmt.Sprintf("; sessions of other roles are hidden from %s: GRANT pg_monitor TO %[2]s", x.role, ident(x.role))
}

const (
	oldTransactions = `SELECT pid, coalesce(usename::text, ''), coalesce(application_name, ''), coalesce(state, ''), extract(epoch FROM clock_timestamp() - xact_start)::bigint
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
AND xact_start < clock_timestamp() - $1::bigint * interval '1 microsecond' ORDER BY xact_start LIMIT 10`

	oldPrepared = `SELECT gid, extract(epoch FROM clock_timestamp() - prepared)::bigint FROM pg_prepared_xacts
WHERE database = current_database() AND prepared < clock_timestamp() - $1::bigint * interval '1 microsecond' ORDER BY prepared LIMIT 10`
)

func (x *examination) openTransactions(ctx context.Context) (doctor.Diagnosis, error) {
	var p problems
	var pid int
	var seconds int64
	var user, name, state, gid string
	err := x.each(ctx, []any{&pid, &user, &name, &state, &seconds}, func() {
		fix := fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid)
		if strings.HasPrefix(state, "idle") {
			fix += fmt.Sprintf("; ALTER ROLE %s SET idle_in_transaction_session_timeout = '30s'", ident(user))
		}
		p.add(fmt.Sprintf("process %d of %s%s: %s, open for %s", pid, user, named(name), state, time.Duration(seconds)*time.Second), fix)
	}, oldTransactions, x.cfg.Stale.Microseconds())
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	err = x.each(ctx, []any{&gid, &seconds}, func() {
		p.add(fmt.Sprintf("prepared transaction %s, open for %s", gid, time.Duration(seconds)*time.Second), "COMMIT PREPARED or ROLLBACK PREPARED "+literal(gid))
	}, oldPrepared, x.cfg.Stale.Microseconds())
	return p.diagnosis(doctor.Warn, "none older than %s%s", x.cfg.Stale, x.hidden(ctx)), err
}

func named(application string) string {
	if application == "" {
		return ""
	}
	return " (" + application + ")"
}

const unreadSlots = `SELECT slot_name::text, pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_insert_lsn(), restart_lsn)) FROM pg_replication_slots
WHERE NOT active AND restart_lsn IS NOT NULL ORDER BY restart_lsn LIMIT 10`

func (x *examination) slots(ctx context.Context) (doctor.Diagnosis, error) {
	if x.standby {
		return doctor.Sound("those of the primary count"), nil
	}
	var p problems
	var name, size string
	err := x.each(ctx, []any{&name, &size}, func() {
		p.add(fmt.Sprintf("slot %s is not read and keeps %s", name, size), fmt.Sprintf("start its reader, or SELECT pg_drop_replication_slot(%s)", literal(name)))
	}, unreadSlots)
	return p.diagnosis(doctor.Warn, "none that nobody reads"), err
}

const (
	countConnections = `SELECT count(*), count(*) FILTER (WHERE usename = session_user), count(*) FILTER (WHERE datname = current_database())
FROM pg_stat_activity WHERE backend_type = 'client backend' OR backend_type IS NULL`
	connectionLimits = `SELECT (SELECT rolconnlimit FROM pg_roles WHERE rolname = session_user), (SELECT datconnlimit FROM pg_database WHERE datname = current_database()),
 current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer - coalesce(current_setting('reserved_connections', true)::integer, 0)`
)

func (x *examination) connections(ctx context.Context) (doctor.Diagnosis, error) {
	if x.pooled {
		return doctor.Sound("the pooler's limits count; a process of Settle opens up to %d", x.cfg.Connections), nil
	}
	var used, ofRole, ofDatabase, role, database, server int
	if err := x.conn.QueryRow(ctx, countConnections).Scan(&used, &ofRole, &ofDatabase); err != nil {
		return doctor.Diagnosis{}, err
	}
	if err := x.conn.QueryRow(ctx, connectionLimits).Scan(&role, &database, &server); err != nil {
		return doctor.Diagnosis{}, err
	}
	var p problems
	verdict := doctor.Warn
	for _, l := range []struct {
		of         string
		limit, use int
		fix        string
	}{
		{"the server", server, used, "ALTER SYSTEM SET max_connections = %d, and restart the server; or put a pooler in transaction mode before it"},
		{"role " + x.role, role, ofRole, "ALTER ROLE " + ident(x.role) + " CONNECTION LIMIT %d"},
		{"database " + x.database, database, ofDatabase, "ALTER DATABASE " + ident(x.database) + " CONNECTION LIMIT %d"},
	} {
		free := l.limit - l.use + 1 // this one goes
		if l.limit < 0 || x.super && l.of != "the server" || free >= x.cfg.Connections {
			continue
		}
		if l.limit < x.cfg.Connections {
			verdict = doctor.Bad
		}
		p.add(fmt.Sprintf("%s allows %d connections and %d are in use; a process of Settle opens up to %d", l.of, l.limit, l.use, x.cfg.Connections),
			fmt.Sprintf(l.fix, l.use+2*x.cfg.Connections))
	}
	return p.diagnosis(verdict, "%d are free, a process of Settle opens up to %d", server-used+1, x.cfg.Connections), nil
}

const databaseTime = `SELECT clock_timestamp()`

// clockSkew compares with the middle of the quickest of a few questions.
func (x *examination) clockSkew(ctx context.Context) (doctor.Diagnosis, error) {
	var skew time.Duration
	quickest := time.Duration(-1)
	for range 5 {
		var there time.Time
		asked := x.cfg.Clock()
		if err := x.conn.QueryRow(ctx, databaseTime).Scan(&there); err != nil {
			return doctor.Diagnosis{}, err
		}
		took := x.cfg.Clock().Sub(asked)
		if quickest < 0 || took < quickest {
			quickest, skew = took, there.Sub(asked.Add(took/2))
		}
	}
	word := "ahead of"
	if skew < 0 {
		word = "behind"
	}
	away := skew.Abs()
	said := fmt.Sprintf("the database's clock is %s %s this machine's", away.Round(time.Millisecond), word)
	switch fix := "let both follow the same time servers (chrony, systemd-timesyncd)"; {
	case away > time.Minute+quickest:
		return doctor.Diagnose(doctor.Bad, said, fix), nil
	case away > time.Second+quickest:
		return doctor.Diagnose(doctor.Warn, said, fix), nil
	}
	return doctor.Sound("they differ by less than %s", (away + quickest + time.Millisecond).Round(time.Millisecond)), nil
}
