package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

// errDown is what a call of a store or broker gives that did not get through,
// or whose answer did not.
var errDown = errors.New("connection lost")

// outboxModel answers as relay.Store does, at one instant per call. Latency,
// lost calls and lost answers are the glue's business.
type outboxModel struct {
	outboxTable
	name        string
	check       *outboxChecker
	divisions   []*division
	lanes       []*laneModel // by number
	parked      []parkedRow  // in park order
	parkNo      int64
	delayed     []relay.Delay    // by due time, then id
	extra       []int64          // sorted
	again       map[int64]string // message ids of those of extra that were sent before
	shares      shares
	resends     int
	gap         []int64 // sorted
	dead        []*deadRow
	coordinates map[int64]settle.Coordinates
	controls    relay.Controls
}

type relayLease struct {
	owner    string
	epoch    int64
	expires  time.Time
	resigned bool
	deaths   int
	since    time.Time // when it was taken
	seen     time.Time // when it was renewed last
	ttl      time.Duration
}

type storedCheckpoint struct {
	epoch int64
	relay.Checkpoint
}

type parkedRow struct {
	relay.Park
	no       int64
	dead     bool
	together int
	// alone are the leaders that wrote down that they would try it alone, and
	// have not taken that back.
	alone []leader
	by    leader // who wrote it last
}

// leader is one term of a lane's leadership.
type leader struct {
	lane  int
	epoch int64
}

type deadRow struct {
	relay.Death
	open bool
}

// addOutbox makes the outbox of one database.
func (w *World) addOutbox(name string) *outboxModel {
	o := &outboxModel{name: name, outboxTable: newOutboxTable(w), coordinates: map[int64]settle.Coordinates{}, again: map[int64]string{}, shares: newShares()}
	o.check = &outboxChecker{w: w, o: o, highest: map[string]*outboxRow{}}
	o.newDivision(1).begun = true
	w.outboxes = append(w.outboxes, o)
	return o
}

// someOutbox is one of them, by chance.
func (w *World) someOutbox() *outboxModel {
	if len(w.outboxes) == 1 {
		return w.outboxes[0]
	}
	return w.outboxes[w.IntN(len(w.outboxes))]
}

// newest is a lane's checkpoint with the highest epoch, then number.
func (l *laneModel) newest() storedCheckpoint { return l.latest }

// holds reports whether l is the lease in force.
func (o *outboxModel) holds(l relay.Lease) error {
	if now := o.lanes[l.Lane].lease; now.epoch != l.Epoch || now.owner != l.Owner || now.resigned {
		o.w.probes.hit("write of a former leader refused")
		return settle.ErrFenced
	}
	return nil
}

// Load implements relay.Store.
func (o *outboxModel) Load(l relay.Lease) (relay.State, error) {
	if err := o.holds(l); err != nil {
		return relay.State{}, err
	}
	lane := o.lanes[l.Lane]
	s := relay.State{
		Checkpoint:   lane.newest().Checkpoint,
		ExtraPending: slices.ContainsFunc(o.extra, func(id int64) bool { return lane.Owns(o.keyOf(id)) }),
		MaxID:        o.maxID(),
		CursorEvents: map[int64]string{},
		Controls:     o.Controls(lane),
	}
	s.Checkpoint.Readers = cloneReaders(s.Checkpoint.Readers)
	for _, r := range s.Checkpoint.Readers {
		s.CursorEvents[r.Cursor] = ""
		if row := o.visible(r.Cursor); row != nil {
			s.CursorEvents[r.Cursor] = row.event.ID
		}
	}
	if i := slices.IndexFunc(o.delayed, func(d relay.Delay) bool { return lane.Owns(d.Key) }); i >= 0 {
		s.NextDelayed = o.delayed[i].Due
	}
	s.Parked = s.Controls.Parked
	return s, nil
}

func cloneReaders(readers []relay.Reader) []relay.Reader {
	out := slices.Clone(readers)
	for i := range out {
		out[i].Open = slices.Clone(out[i].Open)
	}
	return out
}

// keyOf is the order key of a row, whether it is visible or not.
func (o *outboxModel) keyOf(id int64) string { return o.row(id).event.AggregateID }

func (o *outboxModel) parkedKeys(lane *laneModel) []relay.ParkedKey {
	var keys []relay.ParkedKey
	for _, p := range o.parked {
		if !lane.Owns(p.Key) {
			continue
		}
		i := slices.IndexFunc(keys, func(k relay.ParkedKey) bool { return k.Destination == p.Destination && k.Key == p.Key })
		if i < 0 {
			keys = append(keys, relay.ParkedKey{Destination: p.Destination, Key: p.Key, Rows: 1, HeadDue: p.NextAt, HeadDead: p.dead})
			continue
		}
		keys[i].Rows++
	}
	return keys
}

// Poll implements relay.Store.
func (o *outboxModel) Poll(lane *laneModel, q relay.PollQuery) relay.Page {
	newest := lane.newest()
	p := relay.Page{Complete: true, Epoch: newest.epoch, Number: newest.Number, Controls: o.controls.Version, NotDurable: o.volatile()}
	bytes, own := 0, 0
	take := func(id int64) bool {
		row := o.visible(id)
		if row == nil {
			return true
		}
		if !lane.Owns(row.event.AggregateID) && len(p.Rows)-own < lane.Of*q.MaxRows {
			o.w.probes.hit("row of another lane seen")
			p.Rows = append(p.Rows, relay.Row{ID: id, Elsewhere: true, Event: &settle.Event{ID: row.event.ID}})
			return true
		}
		bytes += len(row.event.Payload)
		if own == q.MaxRows || !lane.Owns(row.event.AggregateID) || (bytes > q.MaxBytes && own > 0) {
			p.Complete = false
			return false
		}
		own++
		p.Rows = append(p.Rows, o.asRow(row))
		return true
	}
	holes := slices.Clone(q.Holes)
	slices.Sort(holes)
	for _, id := range holes {
		if id <= q.After && !take(id) {
			return p
		}
	}
	last := o.maxID()
	if q.UpTo > 0 {
		last = min(last, q.UpTo)
	}
	for id := q.After + 1; id <= last; id++ {
		if !take(id) {
			return p
		}
	}
	return p
}

func (o *outboxModel) asRow(row *outboxRow) relay.Row {
	r := relay.Row{ID: row.id, Event: row.event}
	if o.w.defective(row.event) {
		r.Event, r.Defect = &settle.Event{ID: row.event.ID, Topic: row.event.Topic, AggregateID: row.event.AggregateID, Type: row.event.Type}, "payload is not JSON"
	}
	return r
}

// Owners implements relay.Store: which transactions that have inserted into
// the table are open.
func (o *outboxModel) Owners(before relay.Evidence) relay.Evidence {
	if !o.w.OwnersKnown {
		return relay.Evidence{}
	}
	e := relay.Evidence{Known: true, Clear: true}
	var now []string
	for _, tx := range o.open {
		if tx.inside {
			now = append(now, strconv.Itoa(tx.no))
		}
	}
	e.Token = fmt.Sprintf("%d:%s", o.crashes, strings.Join(now, ","))
	if life, txs, ok := strings.Cut(before.Token, ":"); ok && life == strconv.Itoa(o.crashes) {
		for _, no := range strings.Split(txs, ",") {
			e.Clear = e.Clear && (no == "" || !slices.Contains(now, no))
		}
	}
	return e
}

// Controls implements relay.Store.
func (o *outboxModel) Controls(lane *laneModel) relay.Controls {
	c := o.controls
	c.Rows, c.Skips, c.Parked = slices.Clone(c.Rows), slices.Clone(c.Skips), o.parkedKeys(lane)
	if d := o.next(lane); d != nil {
		c.Divided, c.Barrier = true, d.barrier
	}
	return c
}
