package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/settlemq/settle/doctor"
)

const (
	hasStatus = `SELECT count(*) > 0 FROM information_schema.columns WHERE table_schema = ? AND table_name = ? AND column_name = 'status'`

	// What the server has counted since it was started, if it counts; to see it
	// takes a right.
	rowsUpdated = `SELECT coalesce(sum(count_update), 0) FROM performance_schema.table_io_waits_summary_by_table
WHERE object_schema = ? AND object_name = ?`

	// What sessions of others say at this moment.
	runningStatements = `SELECT id, user, host, info FROM information_schema.processlist WHERE db = ? AND id <> CONNECTION_ID() AND info IS NOT NULL`
)

// updatesOutbox and claimsRows tell a statement of another relay: Settle locks no
// row that it reads, and updates none of its own outbox.
func updatesOutbox(table string) *regexp.Regexp {
	return regexp.MustCompile(`(?is)^\W*update\b[^;]*?\b` + regexp.QuoteMeta(table) + `\b[^;]*?\bset\b`)
}

func claimsRows(table string) *regexp.Regexp {
	return regexp.MustCompile(`(?is)\b` + regexp.QuoteMeta(table) + `\b.*\bskip\s+locked\b`)
}

// oldRelay: that another relay works shows in rows that were updated, and in
// statements that run while it is looked.
func (x *examination) oldRelay(ctx context.Context) (doctor.Diagnosis, error) {
	// Of a table that was there before Settle it marks the rows, too, from
	// sessions in a database of its own.
	database, table, _ := x.outboxAt()
	var marked bool
	if err := x.db.QueryRowContext(ctx, hasStatus, database, table).Scan(&marked); err != nil {
		return doctor.Diagnosis{}, err
	}
	updates, claims := updatesOutbox(table), claimsRows(table)
	var evidence []string
	if x.adopted != nil {
		traces, err := x.foreignTraces(ctx)
		if err != nil {
			return doctor.Diagnosis{}, err
		}
		if traces != "" {
			evidence = append(evidence, traces)
		}
	}
	updated, counted, err := x.updated(ctx, database, table)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	if updated > 0 && !marked {
		evidence = append(evidence, fmt.Sprintf("rows of t_outbox_event were updated %d times", updated))
	}
	var session int64
	var user, host, statement string
	seen := map[int64]bool{}
	for range looksForRelays {
		err := each(ctx, x.db, []any{&session, &user, &host, &statement}, func() {
			if works := claims.MatchString(statement) || !marked && updates.MatchString(statement); works && !seen[session] {
				seen[session] = true
				evidence = append(evidence, fmt.Sprintf("connection %d of %s from %s is at it", session, user, host))
			}
		}, runningStatements, database)
		if err != nil {
			return doctor.Diagnosis{}, err
		}
	}
	if len(evidence) > 0 {
		return doctor.Diagnose(doctor.Bad, strings.Join(evidence, "; "), "stop the relay that was there before, then let Settle's run (SHOW FULL PROCESSLIST shows who it is)"), nil
	}
	if !counted {
		return doctor.Sound("none seen at this moment; the server does not count updates for %s (performance_schema)", x.url.User), nil
	}
	return doctor.Sound("none seen"), nil
}

// looksForRelays is how often the running statements are looked at: each is
// there for a moment only.
const looksForRelays = 20

// updated is how many updates of the outbox's rows the server has counted.
func (x *examination) updated(ctx context.Context, database, table string) (n int64, counted bool, err error) {
	if !x.on("performance_schema") {
		return 0, false, nil
	}
	err = x.db.QueryRowContext(ctx, rowsUpdated, database, table).Scan(&n)
	if hasCode(err, codeNoRight) || errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return n, err == nil, err
}
