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
//     information_schema.innodb_trx and the processlist tell, to who has PROCESS;
//  2. its record can be locked at once, or is not there.
//
// What a poll that begins then does not return never comes. A statement that was
// given an id and has locked no table yet is not seen by 1; that takes a few
// microseconds, and holes are asked about for longer (relay.Config.HoleAge).

// evidence is what a token says.
type evidence struct {
	// Missing are the ids that it is about.
	Missing []outboxlog.Run `json:"missing"`
	// Running are the statements that may own them, by session and start of the
	// transaction; Asked is false where they are not known.
	Running []string `json:"running"`
	Asked   bool     `json:"asked"`
}

// Owners implements relay.Store. Where statements can't be seen the answer is
// not known, and grace counts, unless one of the records is locked.
func (l *Log) Owners(ctx context.Context, before relay.Evidence) (relay.Evidence, error) {
	e, err := l.owners(ctx, before)
	if err != nil {
		return relay.Evidence{}, fmt.Errorf("ask for owners of missing ids: %w", explain(err))
	}
	return e, nil
}

func (l *Log) owners(ctx context.Context, before relay.Evidence) (relay.Evidence, error) {
	if before.Token == "" {
		return l.firstEvidence(ctx)
	}
	var then evidence
	if err := json.Unmarshal([]byte(before.Token), &then); err != nil {
		return relay.Evidence{}, fmt.Errorf("%q is no evidence of this store", before.Token)
	}
	e := relay.Evidence{Known: true, Token: before.Token}
	known := then.Asked
	if len(then.Running) > 0 {
		if !l.mayAsk() {
			return e, nil
		}
		running, asked, err := l.running(ctx)
		if err != nil {
			return e, err
		}
		if asked && slices.ContainsFunc(then.Running, func(s string) bool { return slices.Contains(running, s) }) {
			return e, nil
		}
		known = asked
	}
	locked, err := l.locked(ctx, l.stillMissing(then.Missing))
	if err != nil || locked {
		return e, err
	}
	e.Known, e.Clear = known, known
	return e, nil
}

// firstEvidence takes the ids first: who owns one of them runs already.
func (l *Log) firstEvidence(ctx context.Context) (relay.Evidence, error) {
	l.mu.Lock()
	now := evidence{Missing: l.missing.Runs()}
	l.mu.Unlock()
	var err error
	if l.mayAsk() {
		now.Running, now.Asked, err = l.running(ctx)
	}
	if err != nil {
		return relay.Evidence{}, err
	}
	token, err := json.Marshal(now)
	return relay.Evidence{Known: true, Token: string(token)}, err
}

// stillMissing leaves out what polls have returned since.
func (l *Log) stillMissing(ids []outboxlog.Run) []outboxlog.Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.missing.Of(ids)
}

const (
	// What innodb_trx shows is made anew only if nobody has read it for 100 ms.
	// It shows this very question, in a transaction, if it was made for it. A
	// transaction that has locked nothing writes nothing yet, and one whose
	// session waits for its client has no statement that runs.
	openTransaction = `SELECT one FROM settle_control_version`
	runningOnes     = `SELECT t.trx_mysql_thread_id, CAST(t.trx_started AS CHAR), coalesce(t.trx_query, ''), t.trx_lock_structs > 0 AND coalesce(p.command, '') <> 'Sleep', '%s'
FROM information_schema.innodb_trx t LEFT JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE t.trx_mysql_thread_id <> 0`
)

// askEvery is how long nobody may have read innodb_trx.
const askEvery = 120 * time.Millisecond

// mayAsk reports whether innodb_trx may be read again.
func (l *Log) mayAsk() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.askedAt) < askEvery {
		return false
	}
	l.askedAt = time.Now()
	return true
}

// running returns the statements that write now. It reports false where they
// can't be seen: a right is missing, or others read so often that the server
// answers with what was.
func (l *Log) running(ctx context.Context) (all []string, known bool, err error) {
	question := settle.NewID()
	err = snapshot(ctx, l.s.own, func(tx *sql.Tx) error {
		var one int
		if err := tx.QueryRowContext(ctx, openTransaction).Scan(&one); err != nil {
			return err
		}
		var session int64
		var since, statement, id string
		var writes bool
		return each(ctx, tx, []any{&session, &since, &statement, &writes, &id}, func() {
			switch {
			case strings.Contains(statement, question):
				known = true
			case writes && !changesTables(statement):
				all = append(all, fmt.Sprint(session, " ", since))
			}
		}, fmt.Sprintf(runningOnes, question))
	})
	l.mu.Lock()
	l.askedAt = time.Now()
	l.mu.Unlock()
	if hasCode(err, codeNeedsRight) {
		return nil, false, nil
	}
	return all, known && err == nil, err
}

// changesTables reports whether a statement can't insert into the outbox: it
// may run for hours.
func changesTables(statement string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(statement), " ")
	return slices.Contains([]string{"ALTER", "CREATE", "DROP", "OPTIMIZE", "ANALYZE", "RENAME"}, strings.ToUpper(word))
}

// probe fails at once where a record is locked, by who has inserted it; by
// index, so that no other record is touched, and by itself, so that no lock is
// left. It waits for nobody.
const (
	probeSingle = `SELECT count(*) FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) h STRAIGHT_JOIN t_outbox_event e ON e.id = h.id FOR UPDATE NOWAIT`
	probeRanges = `SELECT count(*) FROM t_outbox_event e FORCE INDEX (PRIMARY) WHERE %s FOR UPDATE NOWAIT`
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
		err := l.s.own.QueryRowContext(ctx, p.query, p.args...).Scan(&found)
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
