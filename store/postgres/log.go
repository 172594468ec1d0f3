package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/adopt"
	"github.com/settlemq/settle/store/outboxlog"
)

// Log is the outbox table read as a log: what a relay works on. Each relay
// needs a Log of its own.
type Log struct {
	s *Store

	mu   sync.Mutex
	held holding
	run  pgtype.Timestamptz // see serverRun
	// looked is when Poll has last compared its position with the table's ids.
	looked time.Time
	// rows and small are of the last page.
	rows  int
	small bool
	// turned are prepared transactions that may be owners of before; see Owners.
	turned turnedOwners
	// Where the next Retain and Sweep begin to look, so that rows which must
	// stay are not looked at again and again.
	retainFrom, pruneFrom, sweepFrom, statusFrom int64
	// swaps is when partitions may be changed next, and partition the one that may
	// go next.
	swaps     puttingOff
	partition *examining
}

// holding is the lease that this Log has taken, and for how long it runs.
type holding struct {
	lease relay.Lease
	lane  relay.Lane
	ttl   time.Duration
}

// Log returns the outbox of the schema as what a relay works on.
func (s *Store) Log() *Log { return &Log{s: s} }

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
	// each statement has a snapshot of its own. ORDER BY and LIMIT in each branch
	// let both be read by index and no further than needed. That single holes,
	// which are sorted, have a first and a last one leaves out partitions. The first arm is one
	// row: the newest checkpoint (0 if there is none), the version of the control
	// rows, and whether what was read may still be lost in a crash: WAL is
	// inserted before a commit can be seen, and flushed at some time after. A
	// standby that commits wait for may be behind the flush.
	pollFirst = `SELECT coalesce(c.epoch, 0) AS epoch, coalesce(c.number, 0) AS number, v.version,
 pg_current_wal_insert_lsn() > pg_current_wal_flush_lsn() OR current_setting('synchronous_standby_names') <> '' AS not_durable, ` + noRow + `
FROM settle_control_version v
LEFT JOIN LATERAL (SELECT epoch, number FROM t_outbox_checkpoint WHERE lane = $4 ORDER BY epoch DESC, number DESC LIMIT 1) c ON true
UNION ALL
`
	pollHead  = pollFirst + `SELECT NULL, NULL, NULL, NULL, ` + rowNames + ` FROM `
	pollAbove = `(SELECT ` + rowColumns + ` FROM settle_outbox_row() e WHERE e.id > $1 AND e.id <= $2 AND e.readable ORDER BY e.id LIMIT $3)`
	pollRows  = `(
 (SELECT ` + rowColumns + ` FROM settle_outbox_row() e WHERE e.id = ANY($5) AND e.id >= ($5::bigint[])[1] AND e.id <= ($5::bigint[])[cardinality($5::bigint[])] AND e.readable ORDER BY e.id LIMIT $3)
 UNION ALL
 (SELECT ` + rowColumns + ` FROM unnest($6::bigint[], $7::bigint[]) AS run(first_id, last_id) CROSS JOIN LATERAL
  (SELECT * FROM settle_outbox_row() WHERE id BETWEEN run.first_id AND run.last_id AND readable ORDER BY id LIMIT $3) e ORDER BY e.id LIMIT $3)
 UNION ALL
 ` + pollAbove + `
 ORDER BY id LIMIT $3) u`
	poll = pollHead + pollRows

	// Where there is no hole the rest need not be merged with any.
	pollWhole = pollHead + pollAbove + ` u`

	// Adding sizes up costs as much as reading small rows does, so it is done
	// where rows may be large.
	pollWeighed = pollHead + `(SELECT u.*, sum(octet_length(u.payload)) OVER (ORDER BY u.id ROWS UNBOUNDED PRECEDING) - octet_length(u.payload) AS before
 FROM ` + pollRows + `) w WHERE w.before <= $8`

	// A plan made for one list of holes costs more to make than to run, and
	// compiling a statement (JIT) more than anything here.
	pollSettings = `SELECT pg_postmaster_start_time(), set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true), set_config('statement_timeout', $1, true)`
)

// Poll implements relay.Store.
func (l *Log) Poll(ctx context.Context, q relay.PollQuery) (relay.Page, error) {
	upTo := q.UpTo
	if upTo == 0 {
		upTo = math.MaxInt64
	}
	p := relay.Page{Complete: true}
	// One row more than there is room for tells whether the page is cut.
	last, small := l.lastPage()
	room := outboxlog.Budget{Rows: q.MaxRows, Bytes: q.MaxBytes}
	if !small && last > 0 {
		// To weigh a row of an adopted table is to make its payload: no more of
		// that than about twice what the last page had room for.
		room.Rows = min(room.Rows, 2*last+1)
	}
	query, args := pollWhole, []any{q.After, upTo, room.Limit(), l.holding().lease.Lane}
	if holes := outboxlog.Below(q.Holes, q.After); len(holes) > 0 || !small {
		single, first, last := splitHoles(holes)
		query, args = poll, append(args, single, first, last)
	}
	if !small {
		query, args = pollWeighed, append(args, q.MaxBytes)
	}
	if lane := l.lane(); lane.Of > 1 {
		query, args = pollOfLane(q, lane, &room, small)
	}
	var b pgx.Batch
	b.Queue(pollSettings, ms(l.s.cfg.StatementTimeout)).QueryRow(l.sameRun)
	b.Queue(query, args...).Query(func(rows pgx.Rows) error { return readPage(rows, l.s.adopted.decided(), last, &room, &p) })
	err := l.s.own.SendBatch(ctx, &b).Close()
	l.read(len(p.Rows), err == nil && room.Bytes >= q.MaxBytes/2)
	if err != nil {
		return relay.Page{}, fmt.Errorf("poll outbox: %w", explain(err))
	}
	if len(p.Rows) == 0 && q.After > 0 {
		err = l.sameTable(ctx, q.After)
	}
	return p, err
}

// lastPage tells how many rows the last page had, and whether it was small: if
// not, the next may be too large to be read as it comes.
func (l *Log) lastPage() (rows int, small bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows, l.small
}

// read takes note of a page: only behind one that filled less than half of
// its bytes is the next taken to be small. It may be wrong once; what does not
// fit is then read from the wire and dropped.
func (l *Log) read(rows int, small bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows, l.small = rows, small
}

// readPage reads a page, as large as the one before in all likelihood.
func readPage(rows pgx.Rows, of *adopt.Outbox, before int, room *outboxlog.Budget, p *relay.Page) error {
	v := pageRow{row: eventRow{of: of}}
	into := append([]any{&v.epoch, &v.number, &v.controls, &v.flag}, v.row.into()...)
	last := int64(0)
	lastOther := "" // its event's id, if the last row is another lane's
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if v.epoch.Valid {
			p.Epoch, p.Number, p.Controls, p.NotDurable = v.epoch.Int64, v.number.Int64, v.controls.Int64, v.flag.Bool
			continue
		}
		row, size := relay.Row{ID: v.row.id.Int64, Elsewhere: v.flag.Bool}, 0
		if !row.Elsewhere {
			row, size = v.row.row()
		}
		if p.Complete = p.Complete && takes(room, row.Elsewhere, size); !p.Complete {
			continue
		}
		if lastOther = ""; row.Elsewhere {
			lastOther = v.row.eventID.string
		}
		if row.ID <= last {
			return errors.New("rows do not come in the order of their ids")
		}
		last = row.ID
		if p.Rows == nil {
			p.Rows = make([]relay.Row, 0, min(room.Rows+1, before+before/8+16))
		}
		p.Rows = append(p.Rows, row)
	}
	if lastOther != "" {
		p.Rows[len(p.Rows)-1].Event = &settle.Event{ID: lastOther}
	}
	// Behind a first row that is larger than the page nothing was returned.
	p.Complete = p.Complete && room.Bytes >= 0
	return rows.Err()
}

func takes(room *outboxlog.Budget, elsewhere bool, size int) bool {
	if elsewhere {
		return room.TakesOther()
	}
	return room.Takes(size)
}

// splitHoles returns the ids that stand alone, and the ends of runs; no list is
// nil, which would be NULL.
func splitHoles(ids []int64) (single, first, last []int64) {
	alone, ranges := outboxlog.Split(outboxlog.Runs(ids))
	single, first, last = append([]int64{}, alone...), []int64{}, []int64{}
	for _, r := range ranges {
		first, last = append(first, r[0]), append(last, r[1])
	}
	return single, first, last
}
