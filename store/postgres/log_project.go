package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
)

// projection are the statements that write what became of rows into the
// columns which an adopted table has for it.
type projection struct{ sent, shared, others, noted string }

const (
	// Nobody is waited for: a row that somebody holds, or has changed since the
	// statement began, is noted, and written later. Where it is in the table is
	// known from locking it, which saves a second search.
	// What was noted of a row before is over when it is written.
	projectRows = `WITH want AS MATERIALIZED (%[1]s),
 held AS MATERIALIZED (SELECT w.*, e.status, e.ctid AS at FROM %[2]s e JOIN want w ON w.id = e.id ORDER BY e.id FOR NO KEY UPDATE OF e SKIP LOCKED),
 written AS (UPDATE %[2]s e SET %[3]s FROM held w WHERE e.ctid = w.at AND e.id = w.id RETURNING e.id),
 noted AS (INSERT INTO t_outbox_projection (id, status, attempts, next_at, cause, noted_at)
  SELECT w.id, w.kind, w.attempts, w.next_at, w.cause, %[4]s FROM want w WHERE NOT EXISTS (SELECT 1 FROM written h WHERE h.id = w.id)
  ON CONFLICT (id) DO UPDATE SET status = excluded.status, attempts = excluded.attempts, next_at = excluded.next_at, cause = excluded.cause, noted_at = excluded.noted_at)
DELETE FROM t_outbox_projection p USING written h WHERE p.id = h.id`

	// Nearly every row is written so, and nearly always all of them are: what is
	// for the others is looked for only if there are any.
	projectSent = `WITH held AS MATERIALIZED (SELECT e.id, e.status, e.ctid AS at FROM %[1]s e WHERE e.id = ANY ($1::bigint[]) ORDER BY e.id FOR NO KEY UPDATE OF e SKIP LOCKED),
 written AS (UPDATE %[1]s e SET %[2]s FROM held w WHERE e.ctid = w.at AND e.id = w.id RETURNING e.id),
 noted AS (INSERT INTO t_outbox_projection (id, status, attempts, next_at, cause, noted_at)
  SELECT w.id, '` + projectedSent + `', 0, NULL, '', $2 FROM unnest($1::bigint[]) AS w(id)
  WHERE (SELECT count(*) FROM written) < cardinality($1) AND NOT EXISTS (SELECT 1 FROM written h WHERE h.id = w.id)
  ON CONFLICT (id) DO UPDATE SET status = excluded.status, attempts = excluded.attempts, next_at = excluded.next_at, cause = excluded.cause, noted_at = excluded.noted_at)%[3]s
DELETE FROM t_outbox_projection p USING written h WHERE EXISTS (SELECT 1 FROM t_outbox_projection) AND p.id = h.id`

	// What our log had to send, and has sent, another relay has sent or taken too.
	alsoTaken = `,
 taken AS (UPDATE settle_adoption a SET foreign_id = greatest(a.foreign_id, f.last), foreign_rows = a.foreign_rows + f.rows, foreign_seen_at = $2
  FROM (SELECT count(*) AS rows, max(h.id) AS last FROM held h WHERE h.status IN (%s) AND h.id <> ALL ($3::bigint[])) f WHERE f.rows > 0)`

	wantOthers = `SELECT id, kind, attempts, next_at, cause FROM unnest($1::bigint[], $2::text[], $3::integer[], $4::timestamptz[], $5::text[]) AS w(id, kind, attempts, next_at, cause)`

	// Of a row that is gone nothing need be written.
	dropGone  = `DELETE FROM t_outbox_projection p WHERE p.id IN (SELECT id FROM t_outbox_projection ORDER BY id LIMIT $1) AND NOT EXISTS (SELECT 1 FROM settle_outbox_row() e WHERE e.id = p.id)`
	wantNoted = `SELECT id, status AS kind, attempts, next_at, cause FROM t_outbox_projection ORDER BY id LIMIT $1`
)

// What t_outbox_projection calls the kinds of status that are written.
const (
	projectedSent  = "SENT"
	projectedRetry = "RETRY"
	projectedDead  = "DEAD"
)

// causePassed is what a table says of a row that was passed.
const causePassed = "a person had it passed"

func newProjection(a *adoption) projection {
	set := func(assignments ...string) string { return strings.Join(assignments, ", ") }
	touched := []string{}
	if a.Has("updated_at") {
		touched = append(touched, "updated_at = "+a.stored("updated_at", "now()"))
	}
	all := append([]string{fmt.Sprintf("status = CASE w.kind WHEN '%s' THEN %s WHEN '%s' THEN %s WHEN '%s' THEN %s ELSE e.status END",
		projectedSent, a.word(migrate.StatusSent), projectedRetry, a.word(migrate.StatusRetry), projectedDead, a.word(migrate.StatusDead))}, touched...)
	failed := "w.kind <> '" + projectedSent + "'"
	if a.Has("retry_count") {
		all = append(all, fmt.Sprintf("retry_count = CASE WHEN %s THEN w.attempts ELSE e.retry_count END", failed))
	}
	if a.Has("next_retry_time") {
		all = append(all, fmt.Sprintf("next_retry_time = CASE WHEN w.next_at IS NOT NULL THEN %s ELSE e.next_retry_time END", a.stored("next_retry_time", "w.next_at")))
	}
	if a.Has("last_error") {
		all = append(all, fmt.Sprintf("last_error = CASE WHEN %s THEN %s ELSE e.last_error END", failed, a.fitting("last_error", "w.cause")))
	}
	sent := set(append([]string{"status = " + a.word(migrate.StatusSent)}, touched...)...)
	return projection{
		sent:   fmt.Sprintf(projectSent, a.table(), sent, fmt.Sprintf(alsoTaken, a.words(migrate.StatusSent, migrate.StatusInFlight))),
		shared: fmt.Sprintf(projectRows, wantShared, a.table(), set(all...), "$5::timestamptz"),
		others: fmt.Sprintf(projectRows, wantOthers, a.table(), set(all...), "$6::timestamptz"),
		noted:  fmt.Sprintf(projectRows, wantNoted, a.table(), set(all...), "$2::timestamptz"),
	}
}

// fitting cuts a text to what its column takes.
func (a *adoption) fitting(column, text string) string {
	_, limit, limited := strings.Cut(a.Columns[column], "(")
	if !limited {
		return text
	}
	return "left(" + text + ", " + strings.TrimSuffix(limit, ")") + ")"
}

// outcomeOf is what the flush makes of a row that was not sent.
type outcomeOf struct {
	kind     string
	attempts int
	next     time.Time
	cause    string
}

// queue adds the statements for a flush. A row whose fate has changed more than
// once in it gets the last one.
func (p *projection) queue(b *pgx.Batch, f *relay.Flush, now time.Time) {
	ids, sideways := make([]int64, 0, len(f.Sent)), []int64{}
	for i := range f.Sent {
		s := &f.Sent[i]
		if s.Share != nil {
			continue
		}
		ids = append(ids, s.ID)
		if s.From != relay.FromLog { // one that is sent once more is SENT already
			sideways = append(sideways, s.ID)
		}
	}
	if len(ids) > 0 {
		b.Queue(p.sent, sortedOnce(ids), now, sideways)
	}
	p.queueShared(b, f, now)
	others := map[int64]outcomeOf{}
	for i := range f.Park {
		if k := &f.Park[i]; k.Attempts > 0 {
			others[k.ID] = outcomeOf{projectedRetry, k.Attempts, k.NextAt, k.Cause}
		}
	}
	for i := range f.Attempts {
		if k := &f.Attempts[i]; k.Attempts > 0 {
			others[k.ID] = outcomeOf{projectedRetry, k.Attempts, k.NextAt, k.Cause}
		}
	}
	for i := range f.Dead {
		k := &f.Dead[i]
		others[k.ID] = outcomeOf{projectedDead, k.Attempts, time.Time{}, k.Cause}
	}
	for i := range f.Skip {
		if f.Skip[i].Share == nil {
			others[f.Skip[i].ID] = outcomeOf{projectedDead, 0, time.Time{}, causePassed}
		}
	}
	if len(others) == 0 {
		return
	}
	ids = slices.Sorted(maps.Keys(others))
	kinds, attempts, next, causes := make([]string, len(ids)), make([]int32, len(ids)), make([]*time.Time, len(ids)), make([]string, len(ids))
	for i, id := range ids {
		o := others[id]
		kinds[i], attempts[i], causes[i] = o.kind, int32(min(o.attempts, 30_000)), clean(o.cause)
		if !o.next.IsZero() {
			at := o.next.UTC()
			next[i] = &at
		}
	}
	b.Queue(p.others, ids, kinds, attempts, next, causes, now)
}

func sortedOnce(ids []int64) []int64 {
	slices.SortFunc(ids, cmp.Compare[int64])
	return slices.Compact(ids)
}

// projectNoted writes what could not be written when it happened.
func (l *Log) projectNoted(ctx context.Context, tx pgx.Tx, now time.Time, limit int) error {
	if _, err := tx.Exec(ctx, dropGone, limit); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, l.s.project.noted, limit, now)
	return err
}
