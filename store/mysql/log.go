package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// Log is the outbox table read as a log: what a relay works on. Each relay
// needs a Log of its own.
type Log struct {
	s *Store

	mu   sync.Mutex
	held holding
	run  string // see serverRun
	// looked is when Poll has last compared its position with the table's ids.
	looked time.Time
	// Some replica or node must have what is read before it counts as durable.
	replicated bool
	// width is how many rows the next page may have; 0 for as many as are wanted.
	width int
	// missing are ids up to top that no poll has returned; see Owners.
	missing outboxlog.Missing
	top     int64
	// looks is set once the statements of others could be seen.
	looks bool
	born  time.Time
	// Where the next Retain and Sweep begin to look, so that rows which must
	// stay are not looked at again and again.
	retainFrom, pruneFrom, sweepFrom, statusFrom int64
}

// holding is the lease that this Log has taken, and the lane that it is for.
type holding struct {
	lease relay.Lease
	lane  relay.Lane
}

// Log returns the outbox of the database as what a relay works on.
func (s *Store) Log() *Log { return &Log{s: s, born: time.Now()} }

var _ relay.Store = (*Log)(nil)

func (l *Log) holding() holding {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

func (l *Log) hold(h holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = h
}

const (
	// The page and what is known of its durability are one statement, because
	// each statement has a snapshot of its own. The first arm is one row: the
	// newest checkpoint (0 if there is none), the version of the control rows,
	// whether what was read may still be lost in a crash, and which run of the
	// server answers. A commit can be seen before the redo log is written; with a
	// binary log that is synced, not before that is, and it brings back what the
	// redo log has prepared.
	pollFirst = `SELECT coalesce(c.epoch, 0) AS epoch, coalesce(c.number, 0) AS number, v.version,
 NOT (@@global.log_bin AND @@global.sync_binlog = 1 AND @@global.innodb_flush_log_at_trx_commit = 1) AS not_durable, coalesce(@settle_run, '') AS run, ` + noRow + `
FROM settle_control_version v
LEFT JOIN (SELECT epoch, number FROM t_outbox_checkpoint WHERE lane = ? ORDER BY epoch DESC, number DESC LIMIT 1) c ON true
UNION ALL
`
	pollHead = pollFirst + `(SELECT NULL, NULL, NULL, NULL, NULL, ` + rowColumns + ` FROM `

	// Where there is no hole the rest need not be merged with any.
	pollWhole = pollHead + logRows + ` WHERE e.id > ? AND e.id <= ? ORDER BY e.id LIMIT ?)`

	// Ids are put in order before their rows are read: to sort rows would mean to
	// write them to a table on the disk. Each list of ids comes by index and no
	// longer than needed.
	pollMerged = pollHead + `(%s
 (SELECT e.id FROM ` + logRows + ` WHERE e.id > ? AND e.id <= ? ORDER BY e.id LIMIT ?)
 ORDER BY id LIMIT ?) f STRAIGHT_JOIN ` + logRows + ` ON e.id = f.id ORDER BY f.id LIMIT ?)`

	findSingle = `SELECT %s FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) h STRAIGHT_JOIN ` + logRows + ` ON e.id = h.id%s ORDER BY h.id LIMIT ?`
	findRanges = `SELECT %s FROM ` + logRows + ` WHERE (%s)%s ORDER BY e.id LIMIT ?`
)

// Poll implements relay.Store.
func (l *Log) Poll(ctx context.Context, q relay.PollQuery) (relay.Page, error) {
	room := l.room(q.MaxRows, q.MaxBytes)
	query, args := l.pollQuery(q, &room)
	p := relay.Page{Complete: true}
	err := l.pollPage(ctx, &p, &room, query, args)
	l.took(&room, q.MaxRows, !p.Complete && room.Others >= 0, err)
	if err != nil {
		return relay.Page{}, fmt.Errorf("poll outbox: %w", explain(err))
	}
	l.passed(q, &p)
	if len(p.Rows) == 0 && q.After > 0 {
		err = l.sameTable(ctx, q.After)
	}
	return p, err
}

func (l *Log) pollQuery(q relay.PollQuery, room *outboxlog.Budget) (string, []any) {
	if lane := l.lane(); lane.Of > 1 {
		return pollOfLane(q, lane, room)
	}
	upTo, limit := q.UpTo, room.Limit()
	if upTo == 0 {
		upTo = math.MaxInt64
	}
	lane := l.holding().lease.Lane
	runs := outboxlog.Runs(outboxlog.Below(q.Holes, q.After))
	if len(runs) == 0 {
		return pollWhole, []any{lane, q.After, upTo, limit}
	}
	var arms strings.Builder
	args := []any{lane}
	for _, find := range findQueries(runs, "e.id", "") {
		arms.WriteString("(" + find.query + ")\n UNION ALL\n ")
		args = append(append(args, find.args...), limit)
	}
	return fmt.Sprintf(pollMerged, arms.String()), append(args, q.After, upTo, limit, limit, limit)
}

// finding is a query for ids of a list that are there; its last argument, how
// many at most, is not among args.
type finding struct {
	query string
	args  []any
}

// rangesAtOnce is how many ranges of ids one query looks up.
const rangesAtOnce = 500

// findQueries are the queries for what is there of runs of ids, if a condition
// of its columns, behind others, holds: ids that stand alone are joined, for the
// rest the index is read from end to end of each run.
func findQueries(runs []outboxlog.Run, columns, condition string) []finding {
	single, ranges := outboxlog.Split(runs)
	var all []finding
	if len(single) > 0 {
		all = append(all, finding{fmt.Sprintf(findSingle, columns, condition), []any{idList(single)}})
	}
	for len(ranges) > 0 {
		some := ranges[:min(len(ranges), rangesAtOnce)]
		all = append(all, finding{query: fmt.Sprintf(findRanges, columns, between(some), condition)})
		ranges = ranges[len(some):]
	}
	return all
}

// idList is the JSON array of ids.
func idList(ids []int64) string {
	out := make([]byte, 0, 10*len(ids)+2)
	for i, id := range ids {
		out = strconv.AppendInt(append(out, "[,"[min(i, 1)]), id, 10)
	}
	return string(append(out, ']'))
}

func between(runs []outboxlog.Run) string {
	var b strings.Builder
	for i, r := range runs {
		if i > 0 {
			b.WriteString(" OR ")
		}
		fmt.Fprintf(&b, "e.id BETWEEN %d AND %d", r[0], r[1])
	}
	return b.String()
}

func (l *Log) pollPage(ctx context.Context, p *relay.Page, room *outboxlog.Budget, query string, args []any) error {
	rows, err := l.s.own.QueryContext(ctx, l.s.reading(query), args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	v := pageRow{row: eventRow{of: l.s.adopted.decided()}}
	into := append([]any{&v.epoch, &v.number, &v.controls, &v.flag, &v.run}, v.row.into()...)
	last := int64(0)
	lastOther := "" // its event's id, if the last row is another lane's
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if v.epoch.set {
			p.Epoch, p.Number, p.Controls = v.epoch.int64, v.number.int64, v.controls.int64
			if p.NotDurable, err = l.answeredBy(v.run.string, v.flag.int64 != 0); err != nil {
				return err
			}
			continue
		}
		row := relay.Row{ID: v.row.id.int64, Elsewhere: v.flag.int64 != 0}
		if !v.taken(&row, room) {
			p.Complete = false
			break
		}
		if lastOther = ""; row.Elsewhere {
			lastOther = v.row.eventID.string
		}
		if row.ID <= last {
			return errors.New("rows do not come in the order of their ids")
		}
		last = row.ID
		p.Rows = append(p.Rows, row)
	}
	if lastOther != "" {
		p.Rows[len(p.Rows)-1].Event = &settle.Event{ID: lastOther}
	}
	return rows.Err()
}

// taken reads the event of a row, unless it is another lane's, and reports
// whether there is room for it.
func (v *pageRow) taken(row *relay.Row, room *outboxlog.Budget) bool {
	if row.Elsewhere {
		return room.TakesOther()
	}
	size := 0
	*row, size = v.row.row()
	return room.Takes(size)
}

// room is what a page may take. What does not fit has come over the wire for
// nothing, so after a page of large rows fewer are asked for.
func (l *Log) room(rows, bytes int) outboxlog.Budget {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.width > 0 {
		rows = min(rows, l.width)
	}
	return outboxlog.Budget{Rows: rows, Bytes: bytes}
}

// took takes note of a page that had this room left: the next may have twice as
// many rows, or a quarter after an error, which may be a time-out.
func (l *Log) took(room *outboxlog.Budget, want int, cut bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := want
	if l.width > 0 {
		asked = min(want, l.width)
	}
	switch taken := asked - room.Rows; {
	case err != nil:
		l.width = max(1, asked/4)
	case cut && room.Rows > 0: // by bytes
		l.width = 2 * taken
	case l.width > 0 && 2*asked < want:
		l.width = 2 * asked
	default:
		l.width = 0
	}
}

// passed takes note of the ids that a page has passed without a row.
func (l *Log) passed(q relay.PollQuery, p *relay.Page) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.top = l.missing.Pass(l.top, q, p)
}

// each runs a query and calls do when a row was read into what is given.
func each(ctx context.Context, q querier, into []any, do func(), query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		do()
	}
	return rows.Err()
}

// querier is a pool, a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}
