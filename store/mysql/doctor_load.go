package mysql

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/settlemq/settle/doctor"
)

func (x *examination) loadChecks() []check {
	return []check{
		{"relay", "events wait while no relay leads; leaders that die one after the other may be killed by an event", x.relay},
		{"old_relay", "a second relay of another kind sends events twice and out of order", x.oldRelay},
		{"open_transactions", "an old transaction keeps old rows from being purged everywhere, and may own an id that the relay waits to see", x.openTransactions},
		{"history", "rows that nobody can see any more are read over by every query until they are purged", x.history},
		{"connections", "a process of Settle that gets no connection stands still", x.connections},
		{"clock_skew", "the database's clock decides leases; times of events and retries come from this machine", x.clockSkew},
	}
}

// Lanes that have ended are left out; before there were several, none had.
const leaders = `SELECT l.lane, l.owner, l.epoch, l.clean, l.deaths, coalesce((SELECT r.expires_at > UTC_TIMESTAMP(6) FROM settle_renewal r
 WHERE r.scope = '` + relayScope + `' AND r.name = CAST(l.lane AS CHAR) AND r.epoch = l.epoch ORDER BY r.renewal_no DESC LIMIT 1), false)
FROM t_outbox_lease l WHERE l.epoch > 0%s ORDER BY l.lane`

// lanesSince is the version of the schema from which on there are several lanes.
const lanesSince = 5

func (x *examination) relay(ctx context.Context) (doctor.Diagnosis, error) {
	var has bool
	if err := x.db.QueryRowContext(ctx, hasTables).Scan(&has); err != nil || !has {
		return doctor.Sound("no relay has been here"), err
	}
	living := ""
	if x.version >= lanesSince {
		living = " AND NOT l.ended"
	}
	var p problems
	var good []string
	var owner string
	var epoch int64
	var lane, deaths int
	var clean, runs bool
	err := each(ctx, x.db, []any{&lane, &owner, &epoch, &clean, &deaths, &runs}, func() {
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
	}, fmt.Sprintf(leaders, living))
	if len(good) == 0 {
		good = []string{"no relay has been here"}
	}
	return p.diagnosis(doctor.Warn, "%s", strings.Join(good, "; ")), err
}

// Times of innodb_trx are in the zone of the server's machine.
const oldTransactions = `SELECT p.id, p.user, p.host, p.command, TIMESTAMPDIFF(SECOND, x.trx_started, CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')) AS age
FROM information_schema.innodb_trx x JOIN information_schema.processlist p ON p.id = x.trx_mysql_thread_id
WHERE p.db = DATABASE() AND p.id <> CONNECTION_ID() HAVING age > ? ORDER BY age DESC LIMIT 10`

func (x *examination) openTransactions(ctx context.Context) (doctor.Diagnosis, error) {
	var p problems
	var thread, age int64
	var user, host, command string
	err := each(ctx, x.db, []any{&thread, &user, &host, &command, &age}, func() {
		state := strings.ToLower(command)
		if command == "Sleep" {
			state = "idle"
		}
		p.add(fmt.Sprintf("connection %d of %s from %s: %s, open for %s", thread, user, host, state, time.Duration(age)*time.Second), fmt.Sprintf("KILL %d", thread))
	}, oldTransactions, x.cfg.Stale.Seconds())
	if hasCode(err, codeNoProcess) {
		return doctor.Diagnose(doctor.Warn, "hidden from "+x.url.User, "GRANT PROCESS ON *.* TO "+x.account), nil
	}
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	return p.diagnosis(doctor.Warn, "none older than %s", x.cfg.Stale), nil
}

const historyLength = `SELECT count FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'`

// longHistory is more than a busy server has without an old transaction.
const longHistory = 1_000_000

func (x *examination) history(ctx context.Context) (doctor.Diagnosis, error) {
	var n int64
	err := x.db.QueryRowContext(ctx, historyLength).Scan(&n)
	switch {
	case hasCode(err, codeNoProcess):
		return doctor.Diagnose(doctor.Warn, "hidden from "+x.url.User, "GRANT PROCESS ON *.* TO "+x.account), nil
	case err != nil:
		return doctor.Diagnosis{}, err
	case n > longHistory:
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("%d transactions are not purged", n), "end what open_transactions names, in other databases too, and wait"), nil
	}
	return doctor.Sound("%d transactions are not purged", n), nil
}

const (
	countConnections = `SHOW GLOBAL STATUS LIKE 'Threads_connected'`
	countOwn         = `SELECT count(*) FROM information_schema.processlist WHERE user = substring_index(CURRENT_USER(), '@', 1)`
	ownLimit         = `SELECT @@session.max_user_connections`
)

func (x *examination) connections(ctx context.Context) (doctor.Diagnosis, error) {
	var name string
	var used, own, limit int64
	if err := x.db.QueryRowContext(ctx, countConnections).Scan(&name, &used); err != nil {
		return doctor.Diagnosis{}, err
	}
	if err := x.db.QueryRowContext(ctx, countOwn).Scan(&own); err != nil {
		return doctor.Diagnosis{}, err
	}
	if err := x.db.QueryRowContext(ctx, ownLimit).Scan(&limit); err != nil {
		return doctor.Diagnosis{}, err
	}
	need, server := int64(x.cfg.Connections), x.number("max_connections")
	verdict := doctor.Warn
	var p problems
	for _, l := range []struct {
		of         string
		limit, use int64
		fix        string
	}{
		{"the server", server, used, setGlobal("max_connections", "%d")},
		{"user " + x.url.User, limit, own, "ALTER USER " + x.account + " WITH MAX_USER_CONNECTIONS %d"},
	} {
		if l.limit <= 0 || l.limit-l.use+1 >= need { // this one goes
			continue
		}
		if l.limit < need {
			verdict = doctor.Bad
		}
		p.add(fmt.Sprintf("%s allows %d connections and %d are in use; a process of Settle opens up to %d", l.of, l.limit, l.use, need), fmt.Sprintf(l.fix, l.use+2*need))
	}
	return p.diagnosis(verdict, "%d are free, a process of Settle opens up to %d", server-used+1, need), nil
}

const databaseTime = `SELECT UTC_TIMESTAMP(6)`

// clockSkew compares with the middle of the quickest of a few questions.
func (x *examination) clockSkew(ctx context.Context) (doctor.Diagnosis, error) {
	var skew time.Duration
	quickest := time.Duration(-1)
	for range 5 {
		var there timeColumn
		asked := x.cfg.Clock()
		if err := x.db.QueryRowContext(ctx, databaseTime).Scan(&there); err != nil {
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
