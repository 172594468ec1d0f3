package mysql

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/settlemq/settle/store/migrate"
)

const (
	// The session is the store's: what it reads locks nothing, and its times are UTC.
	scriptSession = `SET SESSION time_zone = '+00:00', SESSION sql_mode = ` + strictly + `, SESSION group_concat_max_len = 4194304, SESSION lock_wait_timeout = 3`
	scriptReads   = `SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED`

	scriptList    = `INSERT IGNORE INTO t_outbox_extra (id, reason, added_at) SELECT w.id, 'backlog', UTC_TIMESTAMP(6) FROM (%s) w WHERE NOT EXISTS (SELECT 1 FROM t_outbox_parked p WHERE p.id = w.id)`
	scriptListed  = `UPDATE settle_adoption SET listed_id = high_id`
	scriptMissing = `INSERT IGNORE INTO t_outbox_gap (first_id, last_id, recorded_at) SELECT r.first_id, r.last_id, UTC_TIMESTAMP(6) FROM
 (SELECT coalesce(lag(i.id) OVER (ORDER BY i.id), 0) + 1 AS first_id, i.id - 1 AS last_id FROM
  (SELECT e.id FROM %[1]s e, settle_adoption h WHERE e.id < h.high_id - %[2]d UNION ALL SELECT high_id - %[2]d FROM settle_adoption WHERE high_id > %[2]d) i) r WHERE r.first_id <= r.last_id`
)

// script is what Run would run, as one text.
func (a *Adopt) script(ctx context.Context, l *adoptLook) (string, error) {
	files, err := l.is.layout(!l.alone)
	if err != nil {
		return "", err
	}
	source := migrate.Source{Dialect: migrate.MySQL, Files: files}
	if l.there {
		source.DB = l.db
	}
	steps, err := migrate.NewSchema(source).Plan(ctx)
	if err != nil {
		return "", err
	}
	decided, err := json.Marshal(l.adoption)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	say := func(comment string, statements ...string) {
		fmt.Fprintf(&b, "-- %s\n", comment)
		for _, s := range statements {
			b.WriteString(strings.TrimSpace(s) + ";\n")
		}
	}
	say("Settle's own tables; nothing is made in the database of "+cmp.Or(l.Plan.Table, l.Plan.ConsumeLog), scriptSession, scriptReads,
		fmt.Sprintf(makeOwn, quoted(l.own), l.is.exact), "USE "+quoted(l.own))
	b.WriteString(steps)
	if l.shared != nil {
		shared, err := json.Marshal(l.shared)
		if err != nil {
			return "", err
		}
		say("how the consume log is shared", bounded(putSharedLog, literal(string(shared))))
	}
	if l.alone {
		return b.String(), nil
	}
	say("how the table is read", append(l.adoption.views(l.own), bounded(putAdoption, literal(string(decided))))...)
	if l.Plan.Adopted {
		return b.String(), nil
	}
	s := newListing(l.adoption)
	if l.Done {
		say("what another relay has done since is not known: all begins anew", forgetExtra, forgetDelayed, forgetGaps, forgetParked, forgetAdopted)
	}
	const most = 9_000_000_000_000_000_000
	waits := []string{s.highest, s.park, fmt.Sprintf(scriptList, bounded(s.waiting, "(SELECT listed_id FROM settle_adoption)", "(SELECT high_id FROM settle_adoption)", most)), scriptListed}
	if !l.adoption.StatusIndex || !l.adoption.Project {
		waits = append(waits, fmt.Sprintf(scriptMissing, l.adoption.table(), openBelow))
	}
	say("what waits now; no other process may run a relay on this database before the last line", append(waits, s.begin, finishAdoption)...)
	return b.String(), nil
}

// bounded puts numbers in the place of what a query is given.
func bounded(query string, args ...any) string {
	for _, arg := range args {
		query = strings.Replace(query, "?", fmt.Sprint(arg), 1)
	}
	return query
}
