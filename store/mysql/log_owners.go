package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// An id is given to a statement. It owns the id until it has inserted the row,
// or ends without: then nobody ever inserts it. From the insert on the
// transaction owns it, and holds the record's lock until it ends. So an id that
// is missing has no owner when, in this order,
//
//  1. no statement runs any more that ran when the id was known to be missing:
//     the processlist tells since when each runs, to who has PROCESS;
//  2. its record can be locked at once, or is not there.
//
// What a poll that begins then does not return never comes.

// evidence is what a token says.
type evidence struct {
	// Missing are the ids that it is about.
	Missing []outboxlog.Run `json:"missing"`
	// Since is when they were known to be missing, in ms of this Log's life.
	Since int64 `json:"since_ms"`
}

// Owners implements relay.Store. Where the statements of others can't be seen
// the answer is not known, and grace counts, unless one of the records is
// locked.
func (l *Log) Owners(ctx context.Context, before relay.Evidence) (relay.Evidence, error) {
	e, err := l.owners(ctx, before)
	if err != nil {
		return relay.Evidence{}, fmt.Errorf("ask for owners of missing ids: %w", explain(err))
	}
	return e, nil
}

func (l *Log) owners(ctx context.Context, before relay.Evidence) (relay.Evidence, error) {
	if before.Token == "" {
		l.mu.Lock()
		now := evidence{Missing: l.missing.Runs()}
		l.mu.Unlock()
		// Who owns one of them runs already.
		now.Since = l.life().Milliseconds()
		token, err := json.Marshal(now)
		return relay.Evidence{Known: true, Token: string(token)}, err
	}
	var then evidence
	if err := json.Unmarshal([]byte(before.Token), &then); err != nil {
		return relay.Evidence{}, fmt.Errorf("%q is no evidence of this store", before.Token)
	}
	e := relay.Evidence{Known: true, Token: before.Token}
	known, err := l.mayLook(ctx)
	if err != nil {
		return e, err
	}
	if known {
		runs, err := l.runsSince(ctx, then.Since)
		if err != nil || runs {
			return e, err
		}
	}
	locked, err := l.locked(ctx, l.stillMissing(then.Missing))
	if err != nil || locked {
		return e, err
	}
	e.Known, e.Clear = known, known
	return e, nil
}

// life is how long this Log has lived, by a clock that nobody sets.
func (l *Log) life() time.Duration { return time.Since(l.born) }

// stillMissing leaves out what polls have returned since.
func (l *Log) stillMissing(ids []outboxlog.Run) []outboxlog.Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.missing.Of(ids)
}

const (
	// The server refuses this to who may not see the sessions of others; of the
	// processlist it would show the own ones only.
	mayLook = `SELECT count(*) FROM information_schema.innodb_trx`

	longestRunning = `SELECT id, coalesce(info, '') FROM information_schema.processlist
WHERE id <> CONNECTION_ID() AND command NOT IN ('Sleep', 'Daemon', 'Binlog Dump', 'Binlog Dump GTID') AND %s >= ?`

	// What innodb_trx shows is made anew only if nobody has read it for 100 ms.
	// If it shows this very question, in a transaction, it was made for it.
	openTransaction = `SELECT one FROM settle_control_version`
	transactions    = `SELECT trx_mysql_thread_id, coalesce(trx_query, ''), trx_lock_structs > 0, '%s' FROM information_schema.innodb_trx`
)

// mayLook reports whether the statements of others can be seen. It asks until
// they can, and again after each Load.
func (l *Log) mayLook(ctx context.Context) (bool, error) {
	l.mu.Lock()
	looks := l.looks
	l.mu.Unlock()
	if looks {
		return true, nil
	}
	var n int
	err := l.s.own.QueryRowContext(ctx, mayLook).Scan(&n)
	if hasCode(err, codeNeedsRight) {
		return false, nil
	}
	l.mu.Lock()
	l.looks = err == nil
	l.mu.Unlock()
	return err == nil, err
}

// runsSince reports whether a statement runs that may have been given an id by
// since, in ms of this Log's life.
func (l *Log) runsSince(ctx context.Context, since int64) (bool, error) {
	// MySQL counts seconds, and rounds both ends.
	column, inexact := "time_ms", 50*time.Millisecond
	if !l.s.server.mariadb {
		column, inexact = "time * 1000", 2*time.Second
	}
	age := l.life().Milliseconds() - since
	age -= age/100 + inexact.Milliseconds()
	var sessions []int64
	var session int64
	var statement string
	err := each(ctx, l.s.own, []any{&session, &statement}, func() {
		if !changesTables(statement) {
			sessions = append(sessions, session)
		}
	}, fmt.Sprintf(longestRunning, column), age)
	if err != nil || len(sessions) == 0 {
		return false, err
	}
	writing, known, err := l.writing(ctx)
	if err != nil || !known {
		return true, err
	}
	return slices.ContainsFunc(sessions, func(id int64) bool { return slices.Contains(writing, id) }), nil
}

// changesTables reports whether a statement can't insert into the outbox: it
// may run for hours.
func changesTables(statement string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(statement), " ")
	return slices.Contains([]string{"ALTER", "CREATE", "DROP", "OPTIMIZE", "ANALYZE", "RENAME"}, strings.ToUpper(word))
}

// writing returns the sessions whose transactions have locked something: one
// that inserts locks the table right after it was given its first id, and holes
// are asked about for longer (relay.Config.HoleAge). It reports false if the
// server answers with what was.
func (l *Log) writing(ctx context.Context) (sessions []int64, known bool, err error) {
	question := settle.NewID()
	err = snapshot(ctx, l.s.own, func(tx *sql.Tx) error {
		var one int
		if err := tx.QueryRowContext(ctx, openTransaction).Scan(&one); err != nil {
			return err
		}
		var session int64
		var statement, id string
		var locks bool
		return each(ctx, tx, []any{&session, &statement, &locks, &id}, func() {
			known = known || strings.Contains(statement, question)
			if locks {
				sessions = append(sessions, session)
			}
		}, fmt.Sprintf(transactions, question))
	})
	return sessions, known && err == nil, err
}

// probe fails at once where a record is locked, by who has inserted it; by
// index, so that no other record is touched, and by itself, so that no lock is
// left. It waits for nobody. MySQL locks no list that stands in the query itself
// (3569), so it stands in one of its own.
const (
	probeSingle = `SELECT count(*) FROM (SELECT j.id FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) j) h STRAIGHT_JOIN ` + logRows + ` ON e.id = h.id FOR UPDATE NOWAIT`
	probeRanges = `SELECT count(*) FROM ` + logRows + ` WHERE %s FOR UPDATE NOWAIT`
)

// locked reports whether a transaction holds the record of one of the ids.
func (l *Log) locked(ctx context.Context, ids []outboxlog.Run) (bool, error) {
	single, ranges := outboxlog.Split(ids)
	var probes []finding
	for some := range slices.Chunk(single, probedAtOnce) {
		probes = append(probes, finding{probeSingle, []any{idList(some)}})
	}
	for some := range slices.Chunk(ranges, rangesAtOnce) {
		probes = append(probes, finding{query: fmt.Sprintf(probeRanges, between(some))})
	}
	for _, p := range probes {
		var found int
		err := l.s.own.QueryRowContext(ctx, l.s.reading(p.query), p.args...).Scan(&found)
		if hasCode(err, codeLockWait) || hasCode(err, codeNoWait) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// probedAtOnce bounds the locks that a probe takes for its moment.
const probedAtOnce = 1000
