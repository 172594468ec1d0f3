package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

var _ relay.Gauge = (*Log)(nil)

// Rows above the cursor that serves their topic, those that readers have open,
// late ones, those that became due, and parked ones. Each tells how many it has
// looked at, how many of them count, and since when. The first is bounded by
// what it looks at: of a topic that has fallen far behind most rows may be
// another's. %s is the cursor of a row.
const (
	backlogAbove = `SELECT count(*), coalesce(sum(w.waits), 0), min(CASE WHEN w.waits THEN w.appended_at END) FROM
(SELECT e.id > %s AS waits, e.appended_at FROM ` + logRows + ` WHERE e.id > ? ORDER BY e.id LIMIT ?) w`
	backlogLate = `SELECT count(*), count(*), min(w.appended_at)
FROM (SELECT e.appended_at FROM t_outbox_extra x STRAIGHT_JOIN t_outbox_event e ON e.id = x.id LIMIT ?) w`
	backlogDue = `SELECT count(*), count(*), min(w.due_at)
FROM (SELECT d.due_at FROM t_outbox_delayed d STRAIGHT_JOIN t_outbox_event e ON e.id = d.id WHERE d.due_at <= ? ORDER BY d.due_at LIMIT ?) w`
	backlogParked = `SELECT count(*), count(*), min(w.appended_at)
FROM (SELECT e.appended_at FROM t_outbox_parked p STRAIGHT_JOIN t_outbox_event e ON e.id = p.id ORDER BY p.park_no LIMIT ?) w`

	appendedAt = `SELECT count(*), count(*), min(appended_at) FROM t_outbox_event WHERE id IN (%s)`
)

// Backlog implements relay.Gauge. A row that waited for its time counts from
// when that came.
func (l *Log) Backlog(ctx context.Context, limit int) (relay.Backlog, error) {
	var b relay.Backlog
	err := snapshot(ctx, l.s.reader, func(tx *sql.Tx) error {
		lanes, err := positions(ctx, tx)
		if err != nil {
			return err
		}
		cursor, lowest, args := cursorOfLanes(lanes)
		c := counting{ctx: ctx, tx: tx, s: l.s, limit: limit, backlog: &b}
		c.count(&b.Pending, fmt.Sprintf(backlogAbove, cursor), append(args, lowest, limit)...)
		c.open(lanes)
		c.count(&b.Pending, backlogLate, limit)
		c.count(&b.Pending, backlogDue, l.s.now().UTC(), limit)
		c.count(&b.Parked, backlogParked, limit)
		return c.err
	})
	if err != nil {
		return relay.Backlog{}, fmt.Errorf("count backlog: %w", explain(err))
	}
	return b, nil
}

// cursorOfLanes returns an expression for the cursor that serves a row, its
// arguments, and the lowest of all cursors.
func cursorOfLanes(lanes [][]relay.Reader) (expression string, lowest int64, args []any) {
	if len(lanes) == 1 {
		return cursorOf(lanes[0])
	}
	var b strings.Builder
	b.WriteString("CASE " + laneOf("e.id", "e.aggregate_id", len(lanes)))
	for i, readers := range lanes {
		cursor, low, more := cursorOf(readers)
		fmt.Fprintf(&b, " WHEN %d THEN %s", i, cursor)
		args = append(args, more...)
		if i == 0 || low < lowest {
			lowest = low
		}
	}
	return b.String() + " END", lowest, args
}

// cursorOf is that of one lane.
func cursorOf(readers []relay.Reader) (expression string, lowest int64, args []any) {
	var b strings.Builder
	main := int64(0)
	for i, r := range readers {
		if i == 0 || r.Cursor < lowest {
			lowest = r.Cursor
		}
		if r.Destination == "" {
			main = r.Cursor
			continue
		}
		b.WriteString(" WHEN ? THEN ?")
		args = append(args, r.Destination, r.Cursor)
	}
	if len(args) == 0 {
		return "?", lowest, []any{main}
	}
	return "CASE e.topic" + b.String() + " ELSE ? END", lowest, append(args, main)
}

// counting adds up a backlog. After an error it does nothing more.
type counting struct {
	ctx     context.Context
	tx      *sql.Tx
	s       *Store
	limit   int
	backlog *relay.Backlog
	err     error
}

func (c *counting) count(into *int, query string, args ...any) {
	if c.err != nil {
		return
	}
	var looked, found int
	var oldest timeColumn
	if c.err = c.tx.QueryRowContext(c.ctx, c.s.reading(query), args...).Scan(&looked, &found, &oldest); c.err != nil {
		return
	}
	b := c.backlog
	b.More = b.More || looked >= c.limit
	*into += found
	if !oldest.IsZero() && (b.Oldest.IsZero() || oldest.Before(b.Oldest)) {
		b.Oldest = oldest.Time
	}
}

// open counts the rows of each lane among what its readers have open: each once.
func (c *counting) open(lanes [][]relay.Reader) {
	var ids []int64
	for i, readers := range lanes {
		var all outboxlog.Missing
		for _, r := range readers {
			for _, run := range outboxlog.Runs(r.Open) {
				all.Add(run[0], run[1])
			}
		}
		own := ""
		if len(lanes) > 1 {
			own = fmt.Sprintf(" AND %s = %d", laneOf("e.id", "e.aggregate_id", len(lanes)), i)
		}
		some, err := c.s.among(c.ctx, c.tx, all.Runs(), c.limit, own)
		if c.err == nil {
			c.err = err
		}
		ids = append(ids, some...)
	}
	if len(ids) == 0 {
		return
	}
	list := idList(ids)
	c.count(&c.backlog.Pending, fmt.Sprintf(appendedAt, list[1:len(list)-1]))
}
