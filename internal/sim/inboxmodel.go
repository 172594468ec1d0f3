package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
)

// inboxModel answers as settle.Inbox does for one group, at one instant per
// call. It is written from the contract, not from any store.
type inboxModel struct {
	w       *World
	group   *groupSetup
	outbox  *outboxModel // of the same database
	rules   map[string]consumer.HandlerRule
	log     map[string]*logRow
	ever    map[string]bool // event ids that were in the log at any time
	passed  map[string]bool // event ids whose key did not wait for them
	retry   []*retryRow     // by id
	retryNo int64
	letters []*letter
	parts   []*ownedPart
	members []member
	roll    []*attending
	floor   time.Time
	keys    map[string]string // effect keys
	seqs    map[string]int64
	effects []effect
	applied map[string]int
	ctrl    settle.Controls
	undo    []func()
	rows    map[string]*keyLock // of business rows that others work on
	tx      *outboxTx           // what the transaction adds to the outbox; nil: nothing yet
	ended   bool                // by the server, wholly or in part: it must not be committed
}

type logStatus string

const (
	logApplied    logStatus = "APPLIED"
	logRejected   logStatus = "REJECTED"
	logDuplicate  logStatus = "DUPLICATE"
	logDiscarded  logStatus = "DISCARDED"
	logGivenUp    logStatus = "COMPENSATED"
	logParked     logStatus = "PARKED"
	logDead       logStatus = "DEAD"
	logProcessing logStatus = "PROCESSING" // left by a foreign consumer
)

func (s logStatus) final() bool {
	return s == logApplied || s == logRejected || s == logDuplicate || s == logDiscarded || s == logGivenUp
}

func (s logStatus) waiting() bool { return s == logParked || s == logDead }

type logRow struct {
	status    logStatus
	appended  time.Time
	processed time.Time
}

// retryRow is an event that waits in the retry store. The id orders a key.
type retryRow struct {
	id       int64
	eventID  string
	key      string
	seq      int64
	item     settle.Item
	dead     bool
	blocking bool
	nextAt   time.Time // zero: waits for the row before it
	parked   time.Time
	replays  int
	accept   bool
}

type letter struct {
	eventID string
	record  settle.Record
	class   settle.Class
	open    bool
	retryID int64 // the row that holds the key, or 0
}

type effect struct {
	event  *settle.Event
	accept bool
}

type ownedPart struct {
	topic   string
	number  int
	owner   string
	epoch   int64
	expires time.Time
	floor   settle.Floor
	claimed int64 // floor when the owner took over
	deaths  int
}

// member is a process that shares the partitions of a topic.
type member struct {
	topic, owner string
	expires      time.Time
}

func newInboxModel(w *World, g *groupSetup, o *outboxModel) *inboxModel {
	x := &inboxModel{
		w: w, group: g, outbox: o, rules: w.story.rules(g), log: map[string]*logRow{}, ever: map[string]bool{}, passed: map[string]bool{}, keys: map[string]string{},
		seqs: map[string]int64{}, applied: map[string]int{}, rows: map[string]*keyLock{},
	}
	for _, t := range w.broker.topics {
		for n := range t.partitions {
			x.parts = append(x.parts, &ownedPart{topic: t.name, number: n})
		}
	}
	return x
}

func (x *inboxModel) part(topic string, number int) *ownedPart {
	for _, p := range x.parts {
		if p.topic == topic && p.number == number {
			return p
		}
	}
	return nil
}

// handler is what the glue runs for item i. It records its effect by calling
// x.effect, and must not be kept.
type handler func(i int) error

// Apply implements settle.Inbox. before, if not nil, is Work.BeforeCommit.
func (x *inboxModel) Apply(wk settle.Work, handle handler, before func() error) ([]settle.Result, error) {
	if err := x.fenced(wk.Floors); err != nil {
		return nil, err
	}
	for i := range wk.Items {
		if l := x.rows[recordKey(&wk.Items[i].Record)]; l != nil && l.held {
			x.w.probes.hit("order's row was locked")
			return nil, errDown
		}
	}
	results := make([]settle.Result, len(wk.Items))
	for i := range results {
		results[i].Verdict = settle.VerdictNotRun
	}
	if x.group.PerItem {
		return results, x.applyEach(wk, handle, before, results)
	}
	x.begin()
	for i := range wk.Items {
		results[i] = x.item(&wk, &wk.Items[i], i, handle)
		if x.ended {
			return x.apart(wk, handle, before, results)
		}
		if results[i].Verdict == settle.VerdictFailed {
			x.rollback(results, i)
			return results, nil
		}
	}
	if before != nil && before() != nil {
		x.rollback(results, -1)
		return results, nil
	}
	if err := x.commit(); err != nil {
		x.rollback(results, -1)
		return nil, err
	}
	x.moveFloors(wk.Floors)
	x.w.check.inbox(x)
	return results, nil
}

func (x *inboxModel) begin() { x.undo, x.ended = x.undo[:0], false }

// rollback undoes the transaction: nothing of it is kept.
func (x *inboxModel) rollback(results []settle.Result, failed int) {
	x.undoAll()
	for i := range results {
		if i != failed {
			results[i] = settle.Result{Verdict: settle.VerdictNotRun}
		}
	}
	x.w.probes.hit("batch rolled back")
}

// applyEach is the form of databases with a transaction for each item. A floor
// moves when all items of its partition are durable.
func (x *inboxModel) applyEach(wk settle.Work, handle handler, before func() error, results []settle.Result) error {
	failed := map[string]bool{}
	floors := slices.Clone(wk.Floors)
	for i := range wk.Items {
		it := &wk.Items[i]
		if !failed[recordKey(&it.Record)] {
			var err error
			if results[i], err = x.applyOne(&wk, it, i, handle, before); err != nil {
				x.w.check.inbox(x)
				return err
			}
		}
		if results[i].Verdict.Durable() {
			continue
		}
		failed[recordKey(&it.Record)] = true
		floors = slices.DeleteFunc(floors, func(f settle.FloorMove) bool {
			return it.RetryID == 0 && f.Partition.Topic == it.Record.At.Topic && f.Partition.Number == it.Record.At.Partition
		})
	}
	x.moveFloors(floors)
	x.w.check.inbox(x)
	return nil
}

// applyOne is one item's transaction.
func (x *inboxModel) applyOne(wk *settle.Work, it *settle.Item, i int, handle handler, before func() error) (settle.Result, error) {
	x.begin()
	r := x.item(wk, it, i, handle)
	if x.ended {
		r = verdict(settle.VerdictNotRun)
	}
	if r.Verdict != settle.VerdictFailed && before != nil && before() != nil {
		r = settle.Result{Verdict: settle.VerdictNotRun}
	}
	var err error
	if r.Verdict.Durable() {
		err = x.commit()
	}
	if err != nil || !r.Verdict.Durable() {
		x.undoAll()
		x.w.probes.hit("item rolled back alone")
	}
	return r, err
}

// commit ends a transaction, the rows of the outbox in it. It may fail: then
// all is to be undone, but for what handlers did elsewhere.
func (x *inboxModel) commit() error {
	if x.w.chance(x.w.LostCommit) {
		x.w.probes.hit("transaction lost at its commit")
		return errDown
	}
	x.undo = x.undo[:0]
	if x.tx != nil {
		x.outbox.commit(x.tx)
		x.tx = nil
		x.w.ring(x.outbox)
	}
	x.w.story.committed(x)
	return nil
}

// insert adds an event to the outbox, in the transaction.
func (x *inboxModel) insert(e *settle.Event) {
	if x.tx == nil {
		x.tx = x.outbox.begin(false)
		x.undone(func() {
			x.outbox.rollback(x.tx)
			x.tx = nil
		})
	}
	x.w.stamp(e, x.outbox)
	x.outbox.insert(x.tx, e, false)
}

// undone keeps how to undo something of the transaction.
func (x *inboxModel) undone(f func()) { x.undo = append(x.undo, f) }

func (x *inboxModel) undoAll() { x.undoTo(0) }

// undoTo undoes what the transaction has done since it had done n things.
func (x *inboxModel) undoTo(n int) {
	for i := len(x.undo) - 1; i >= n; i-- {
		x.undo[i]()
	}
	x.undo = x.undo[:n]
}

// rowLock is the lock of a business row.
func (x *inboxModel) rowLock(key string) *keyLock {
	l := x.rows[key]
	if l == nil {
		l = &keyLock{}
		x.rows[key] = l
	}
	return l
}

func (x *inboxModel) fenced(floors []settle.FloorMove) error {
	for _, f := range floors {
		p := x.part(f.Partition.Topic, f.Partition.Number)
		if p.epoch != f.Partition.Epoch || p.owner != f.Partition.Owner {
			x.w.probes.hit("work of a former owner refused")
			return settle.ErrFenced
		}
	}
	return nil
}

func (x *inboxModel) moveFloors(floors []settle.FloorMove) {
	for _, f := range floors {
		p := x.part(f.Partition.Topic, f.Partition.Number)
		if f.To.Position > p.floor.Position {
			p.floor = f.To
			x.w.check.floor(x, p.topic, p.number, p.floor.Position)
		}
	}
}

func recordKey(r *settle.Record) string {
	if r.Event != nil {
		return r.Event.AggregateID
	}
	return r.Key
}

// recordID is the id that a record is known by in the log: for one that can't
// be understood, its place.
func recordID(r *settle.Record) string {
	if r.Event != nil {
		return r.Event.ID
	}
	return fmt.Sprintf("record:%s/%d/%d", r.At.Topic, r.At.Partition, r.Position)
}

// setLog writes a log row so that it can be undone.
func (x *inboxModel) setLog(id string, status logStatus, appended time.Time) {
	before := x.log[id]
	x.undo = append(x.undo, func() {
		if before == nil {
			delete(x.log, id)
		} else {
			x.log[id] = before
		}
	})
	x.log[id] = &logRow{status: status, appended: appended, processed: x.w.dbNow()}
}

// forgetLog takes the log row of an ignored event away: it leaves none.
func (x *inboxModel) forgetLog(id string) {
	before := x.log[id]
	x.undo = append(x.undo, func() { x.log[id] = before })
	delete(x.log, id)
}

// effect is what a handler does to the business.
func (x *inboxModel) effect(e effect) {
	x.effects = append(x.effects, e)
	x.applied[e.event.ID]++
	x.undo = append(x.undo, func() {
		x.effects = x.effects[:len(x.effects)-1]
		x.applied[e.event.ID]--
	})
}
