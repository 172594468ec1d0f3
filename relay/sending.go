package relay

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/settlemq/settle"
)

// maxFlying bounds batches in flight over all destinations of a broker.
const maxFlying = 32

// planSends gives each destination that can take one its next batch.
func (m *Machine) planSends() {
	if m.flush.committed < m.flush.barrier || m.flush.heavy(m.cfg) || m.publishTime() == 0 {
		return
	}
	if m.planTrial() {
		return
	}
	for _, d := range m.dests {
		if d.line.flying >= maxFlying || d.flight.batch != 0 || d.held || d.waiting() == 0 || !m.reached(d.until) {
			continue
		}
		n, at := d.allowance(m.now, m.cfg.BatchRows)
		if n == 0 {
			m.at(at)
			continue
		}
		if items := m.takeBatch(d, n); len(items) > 0 {
			m.send(d, items, false)
		}
	}
}

// takeBatch takes at most n rows: those of parked keys first, then the queue.
// A row that is not to be sent is recorded instead, when everything before it
// in the queue is done: nothing of its destination is in flight here.
func (m *Machine) takeBatch(d *destination, n int) []item {
	items := make([]item, 0, min(n, d.waiting()))
	bytes := 0
	fits := func(it *item) bool {
		if len(items) > 0 && (len(items) >= n || bytes+it.weight > m.cfg.BatchBytes) {
			return false
		}
		bytes += it.weight
		items = append(items, *it)
		return true
	}
	i := 0
	for i < len(d.drain) && fits(&d.drain[i]) {
		i++
	}
	d.drain = slices.Delete(d.drain, 0, i)
	for len(d.drain) == 0 && d.head < len(d.queue) {
		it := &d.queue[d.head]
		switch {
		case len(d.keys) > 0 && d.keys[it.key()] != nil:
			m.follow(d, it)
		case m.mustRecord(d, it):
			if len(items) > 0 {
				return items // those before it first
			}
			m.record(d, it)
		case !fits(it):
			return items
		}
		d.bytes -= it.weight
		d.queue[d.head] = item{}
		d.head++
	}
	if d.head == len(d.queue) {
		d.queue, d.head = d.queue[:0], 0
	}
	return items
}

// mustRecord reports whether a row is not to be sent as it is.
func (m *Machine) mustRecord(d *destination, it *item) bool {
	return it.row.Gone || it.row.Defect != "" || m.skips(it.row) || m.keyPaused(it.key()) || m.isSuspect(d, it)
}

// record puts a row that is not to be sent into a side table, or passes it.
func (m *Machine) record(d *destination, it *item) {
	switch {
	case m.skips(it.row):
		m.skip(d, it)
	case it.row.Gone:
		m.park(d, it, failure{class: settle.ClassRowDeleted, cause: causeGone, dead: true})
	case it.row.Defect != "":
		m.park(d, it, failure{class: settle.ClassInvalid, cause: it.row.Defect, dead: true})
	case m.keyPaused(it.key()):
		m.park(d, it, failure{class: settle.ClassFollower, cause: causePaused, attempts: it.row.Attempts, at: m.now})
	default:
		m.park(d, it, failure{class: settle.ClassSuspect, cause: causeSuspect, at: m.now, suspect: true})
	}
}

func (m *Machine) send(d *destination, items []item, trial bool) {
	m.batches++
	batch := make([]settle.Message, len(items))
	lead := settle.Lead{Outbox: m.cfg.Name, Lane: m.cfg.Lane, Load: m.life}
	for i := range items {
		it := &items[i]
		batch[i] = settle.Message{ID: it.row.MessageID, Event: it.row.Event, Epoch: m.lease.Epoch, Source: cmp.Or(it.row.Source, m.cfg.Name), Lead: lead}
		if batch[i].ID == "" {
			batch[i].ID = it.row.Event.ID
		}
		if m.routing.used() && topicOf(it.row.Event) != d.topic {
			e := *it.row.Event
			e.Topic = d.topic
			batch[i].Event = &e
		}
		if it.again {
			m.stats.PublishedAgain++
		}
	}
	d.flight = flight{batch: m.batches, life: m.life, items: items, trial: trial}
	if m.routing.fans {
		d.flight.ids = logIDs(items)
	}
	d.spend(len(items))
	m.flying++
	d.line.flying++
	m.emit(Publish{Batch: m.batches, Broker: d.line.broker, Destination: d.name, Messages: batch, Timeout: m.publishTime()})
}

// published takes the receipts of a batch.
func (m *Machine) published(in Published) {
	i := slices.IndexFunc(m.dests, func(d *destination) bool { return d.flight.batch == in.Batch })
	if i < 0 || in.Batch == 0 {
		return
	}
	d := m.dests[i]
	f := d.flight
	d.flight = flight{}
	m.flying--
	d.line.flying--
	if f.life != m.life {
		return
	}
	if f.trial {
		m.survived(d, f.items, in.Receipts)
	}
	if fenced(in.Receipts) {
		m.forget(loading) // the store says whether we still lead
		return
	}
	m.flush.Sent = slices.Grow(m.flush.Sent, len(f.items))
	failed := 0
	for i := range f.items {
		if i >= len(in.Receipts) || in.Receipts[i].Err != nil {
			failed++
			continue
		}
		m.sent(d, &f.items[i], in.Receipts[i])
	}
	if failed == 0 {
		d.answered()
		return
	}
	m.settleFailures(d, f.items, in.Receipts, failed)
}

func fenced(receipts []settle.Receipt) bool {
	return slices.ContainsFunc(receipts, func(r settle.Receipt) bool { return errors.Is(r.Err, settle.ErrFenced) })
}

func receiptError(r []settle.Receipt, i int) error {
	if i < len(r) {
		return r[i].Err
	}
	return settle.ErrClosed
}

// sent records an acknowledged row.
func (m *Machine) sent(d *destination, it *item, r settle.Receipt) {
	if d.line.broker != "" {
		r.At.Topic = d.name // it says which broker has it
	}
	m.flush.Sent = append(m.flush.Sent, Sent{
		ID: it.row.ID, EventID: it.row.Event.ID, Destination: d.name, From: it.from, At: r.At, SentAt: m.now, Share: m.shareOf(d, it),
	})
	m.stats.Published++
	if r.Duplicate {
		m.stats.Duplicates++
	}
	m.left(d, it)
	if it.from == FromParked {
		m.drained(d, it.key())
	}
}

// left is called when a row of a side table is done or recorded elsewhere.
func (m *Machine) left(d *destination, it *item) {
	if it.from == FromDelayed || it.from == FromExtra {
		m.sides.done(d, it.from, m.flush.seq+1, m.now)
	}
}

// settleFailures decides by the first failure of each key: what comes after it
// in the batch was not acknowledged because of it.
func (m *Machine) settleFailures(d *destination, items []item, receipts []settle.Receipt, failed int) {
	acked := len(items) - failed
	first := make(map[string]settle.Scope, failed)
	var again []item
	var broker, topic, record bool
	for i := range items {
		it, err := &items[i], receiptError(receipts, i)
		if err == nil {
			continue
		}
		scope, known := first[it.key()]
		if !known {
			scope = settle.ScopeOf(err)
			first[it.key()] = scope
		}
		switch scope {
		case settle.ScopeRecord:
			record = true
			if known {
				m.behind(d, it)
			} else {
				m.refused(d, it, err)
			}
			continue
		case settle.ScopeTopic:
			topic = true
		default:
			broker = true
			it.again = true
			if acked > 0 {
				it.unknown++
			}
		}
		again = append(again, *it)
	}
	if acked > 0 || record {
		d.answered()
	}
	switch {
	case topic && acked == 0:
		d.topicFailed(m.now)
	case broker || topic:
		d.brokerFailed(m.now)
	}
	m.putBack(d, again, len(items))
}

// putBack returns rows to the front of the queue. Rows of a key that is never
// answered while others are, and that fill half the window, are parked
// without an attempt instead.
func (m *Machine) putBack(d *destination, again []item, window int) {
	stuck := 0
	for i := range again {
		if again[i].unknown >= unknownLimit {
			stuck++
		}
	}
	seen := make(map[string]bool)
	for i := range again {
		it := &again[i]
		key := it.key()
		isStuck := it.unknown >= unknownLimit && 2*stuck >= window || it.unknown >= 4*unknownLimit
		switch {
		case it.from == FromParked:
			m.putOff(d, it)
		case isStuck && !seen[key] && d.keys[key] == nil:
			wait, _ := m.cfg.Retry.Next(it.row.Event.ID, 1, nil)
			m.park(d, it, failure{class: settle.ClassPublish, cause: causeUnknown, attempts: it.row.Attempts, at: m.now.Add(max(wait, time.Second))})
		default:
			d.bytes += it.weight
			d.queue = append(d.queue, *it)
		}
		seen[key] = true
	}
	slices.SortStableFunc(d.queue[d.head:], func(a, b item) int { return cmp.Compare(a.order, b.order) })
}

// unknownLimit is how often in a row a row's outcome must be unknown, while
// others of its topic are answered, before its key may be parked.
const unknownLimit = 3
