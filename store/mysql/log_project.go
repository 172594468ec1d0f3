package mysql

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/outboxlog"
)

// projection are the statements that write what became of rows into the
// columns which an adopted table has for it. Each names its rows by id.
type projection struct {
	hold, sent string
	// failed by what t_outbox_projection calls the kind of status.
	failed map[string]string
}

const (
	// Nobody is waited for: a row that somebody holds is noted, and written later.
	holdRows = `SELECT e.id, coalesce(e.status IN (%[2]s), false) FROM %[1]s e FORCE INDEX (PRIMARY) WHERE e.id IN () FOR UPDATE SKIP LOCKED`

	markRows = `UPDATE %s e FORCE INDEX (PRIMARY) SET %s WHERE e.id IN ()`

	// What our log had to send, and has sent, another relay has sent or taken too.
	alsoTaken = `UPDATE settle_adoption SET foreign_id = greatest(foreign_id, ?), foreign_rows = foreign_rows + ?, foreign_seen_at = ?`

	noteRows = `INSERT INTO t_outbox_projection (id, status, attempts, next_at, cause, noted_at) VALUES %s
ON DUPLICATE KEY UPDATE status = VALUES(status), attempts = VALUES(attempts), next_at = VALUES(next_at), cause = VALUES(cause), noted_at = VALUES(noted_at)`

	// What was noted of a row before is over when it is written, or when it is gone.
	dropNoted = `DELETE FROM t_outbox_projection WHERE id IN (%s)`
	readNoted = `SELECT p.id, p.status, p.attempts, p.next_at, p.cause, e.id IS NULL FROM t_outbox_projection p LEFT JOIN t_outbox_event e ON e.id = p.id ORDER BY p.id LIMIT ?`
)

// What t_outbox_projection calls the kinds of status that are written.
const (
	projectedSent  = "SENT"
	projectedRetry = "RETRY"
	projectedDead  = "DEAD"
)

func newProjection(a *adoption) projection {
	var kept []string
	for _, name := range a.Kept {
		if !slices.Contains(writtenColumns(), name) {
			kept = append(kept, "e."+quoted(name)+" = e."+quoted(name))
		}
	}
	if a.Has("updated_at") {
		kept = append(kept, "e.updated_at = "+a.stored("updated_at", "UTC_TIMESTAMP(6)"))
	}
	// A column that the server would set by itself is set to what it is.
	sent := slices.Concat([]string{"e.status = " + a.word(migrate.StatusSent)}, kept)
	for _, name := range a.Kept {
		if slices.Contains(writtenColumns(), name) {
			sent = append(sent, "e."+name+" = e."+name)
		}
	}
	p := projection{
		hold:   fmt.Sprintf(holdRows, a.table(), a.words(migrate.StatusSent, migrate.StatusInFlight)),
		sent:   fmt.Sprintf(markRows, a.table(), strings.Join(sent, ", ")),
		failed: map[string]string{},
	}
	for kind, status := range map[string]string{projectedRetry: migrate.StatusRetry, projectedDead: migrate.StatusDead} {
		failed := slices.Concat([]string{"e.status = " + a.word(status)}, kept)
		for _, column := range failureColumns(outcomeOf{}) {
			if a.Has(column.name) {
				failed = append(failed, "e."+column.name+" = "+a.failure(column.name))
			}
		}
		p.failed[kind] = fmt.Sprintf(markRows, a.table(), strings.Join(failed, ", "))
	}
	return p
}

// failureColumn is a column that tells of a row that was not sent.
type failureColumn struct {
	name  string
	value any
}

func failureColumns(o outcomeOf) []failureColumn {
	return []failureColumn{{"retry_count", o.attempts}, {"next_retry_time", timeOrNull(o.next)}, {"last_error", clean(o.cause)}}
}

// failure returns the expression that writes one of them.
func (a *adoption) failure(column string) string {
	switch column {
	case "retry_count":
		if baseType(a.Columns[column]) == "tinyint" {
			return "least(?, 100)"
		}
		return "least(?, 30000)"
	case "next_retry_time":
		return "coalesce(" + a.stored(column, "CAST(? AS DATETIME(6))") + ", e.next_retry_time)"
	}
	return a.fitting(column, "?")
}

// word returns the expression that writes a kind of status; the status itself
// where the table has no word for it.
func (a *adoption) word(kind string) string {
	if len(a.Status[kind]) == 0 {
		return "e.status"
	}
	return a.wordLiteral(a.Status[kind][0])
}

// fitting cuts a text to what its column takes, in its characters.
func (a *adoption) fitting(column, text string) string {
	typed := a.Columns[column]
	width := columnWidth(typed)
	switch baseType(typed) {
	case "tinytext":
		width = 255 / 4
	case "text":
		width = 65535 / 4
	case "mediumtext", "longtext":
		width = maxProse
	}
	if charset := a.Charsets[column]; charset != "" && charset != "utf8mb4" {
		text = "CONVERT(" + text + " USING " + charset + ")"
	}
	return fmt.Sprintf("LEFT(%s, %d)", text, width)
}

// outcomeOf is what became of a row.
type outcomeOf struct {
	id       int64
	kind     string
	attempts int
	next     time.Time
	cause    string
}

// project writes what the flush makes of rows. A row whose fate has changed more
// than once in it gets the last one.
func (w *flushing) project(p *projection, a *adoption, f *relay.Flush) {
	all := map[int64]outcomeOf{}
	sideways := map[int64]bool{}
	events := map[int64]string{} // of those that go to several destinations
	for i := range f.Sent {
		s := &f.Sent[i]
		over, beside := outboxlog.IsOver(s.Share)
		if !over {
			continue
		}
		if beside {
			events[s.ID] = s.EventID
		}
		all[s.ID] = outcomeOf{id: s.ID, kind: projectedSent}
		if s.From != relay.FromLog { // one that is sent once more is SENT already
			sideways[s.ID] = true
		}
	}
	for i := range f.Skip {
		s := &f.Skip[i]
		over, beside := outboxlog.IsOver(s.Share)
		if beside {
			events[s.ID] = s.EventID
		}
		if over {
			all[s.ID] = outcomeOf{s.ID, projectedDead, 0, time.Time{}, "a person had it passed"}
		}
	}
	w.dropHeld(all, events)
	for i := range f.Park {
		if k := &f.Park[i]; k.Attempts > 0 {
			all[k.ID] = outcomeOf{k.ID, projectedRetry, k.Attempts, k.NextAt, k.Cause}
		}
	}
	for i := range f.Attempts {
		if k := &f.Attempts[i]; k.Attempts > 0 {
			all[k.ID] = outcomeOf{k.ID, projectedRetry, k.Attempts, k.NextAt, k.Cause}
		}
	}
	for i := range f.Dead {
		k := &f.Dead[i]
		all[k.ID] = outcomeOf{k.ID, projectedDead, k.Attempts, time.Time{}, k.Cause}
	}
	taken, last := int64(0), int64(0)
	for some := range slices.Chunk(slices.Sorted(maps.Keys(all)), rowsAtOnce) {
		outcomes := make([]outcomeOf, len(some))
		for i, id := range some {
			outcomes[i] = all[id]
		}
		for id := range w.mark(p, a, outcomes, true) {
			if !sideways[id] && all[id].kind == projectedSent {
				taken, last = taken+1, max(last, id)
			}
		}
	}
	if taken > 0 {
		w.exec(alsoTaken, last, taken, w.now)
	}
}

// mark writes what became of some rows, in the order of their ids, and notes
// those that somebody holds. It returns the rows that others have marked as sent
// or taken.
func (w *flushing) mark(p *projection, a *adoption, outcomes []outcomeOf, note bool) (others map[int64]bool) {
	others = map[int64]bool{}
	ids := make([]int64, len(outcomes))
	for i := range outcomes {
		ids[i] = outcomes[i].id
	}
	held := map[int64]bool{}
	var id int64
	var other bool
	if w.err == nil {
		w.err = each(w.ctx, w.tx, []any{&id, &other}, func() {
			if held[id] = true; other {
				others[id] = true
			}
		}, ofRows(p.hold, ids))
	}
	var sent, written []int64
	var noted []any
	for i := range outcomes {
		o := &outcomes[i]
		switch {
		case !held[o.id]:
			noted = append(noted, o.id, o.kind, o.attempts, timeOrNull(o.next), clean(o.cause), w.now)
			continue
		case o.kind == projectedSent:
			sent = append(sent, o.id)
		default:
			w.fail(p, a, o)
		}
		written = append(written, o.id)
	}
	if len(sent) > 0 {
		w.exec(ofRows(p.sent, sent))
	}
	if len(written) > 0 {
		w.exec(fmt.Sprintf(dropNoted, plainList(written)))
	}
	if note && len(noted) > 0 {
		w.exec(fmt.Sprintf(noteRows, times(len(noted)/6, "(?,?,?,?,?,?)")), noted...)
	}
	return others
}

// fail writes the status of a row that was not sent.
func (w *flushing) fail(p *projection, a *adoption, o *outcomeOf) {
	var args []any
	for _, column := range failureColumns(*o) {
		if a.Has(column.name) {
			args = append(args, column.value)
		}
	}
	w.exec(ofRows(p.failed[o.kind], []int64{o.id}), args...)
}

// noted writes what could not be written when it happened.
func (w *flushing) noted(p *projection, a *adoption, limit int) {
	if w.err != nil {
		return
	}
	var outcomes []outcomeOf
	var gone []int64
	var o outcomeOf
	var next timeColumn
	var missing bool
	w.err = each(w.ctx, w.tx, []any{&o.id, &o.kind, &o.attempts, &next, &o.cause, &missing}, func() {
		if o.next = next.Time; missing {
			gone = append(gone, o.id)
			return
		}
		outcomes = append(outcomes, o)
	}, readNoted, limit)
	for some := range slices.Chunk(outcomes, rowsAtOnce) {
		w.mark(p, a, some, false)
	}
	if len(gone) > 0 {
		w.exec(fmt.Sprintf(dropNoted, plainList(gone)))
	}
}

// ofRows puts ids into a query that has room for them.
func ofRows(query string, ids []int64) string {
	return strings.Replace(query, "IN ()", "IN ("+plainList(ids)+")", 1)
}

// plainList is ids as a list for IN.
func plainList(ids []int64) string {
	list := idList(ids)
	return list[1 : len(list)-1]
}
