package relay

import (
	"cmp"
	"slices"
	"time"
)

// item is a row in memory on its way to the broker.
type item struct {
	row Row
	// order places it among others of its destination: its id, or for a
	// delayed row the cursor at the time when it came due.
	order int64
	from  Origin
	// parkedAs is the key under which a parked row waits. Its owner may have
	// changed the row's own since then, in mending it.
	parkedAs string
	// weight is the row's size in bytes.
	weight int
	// unknown counts publishes in a row whose outcome is not known while
	// others of the topic were answered.
	unknown int32
	// again is true once a publish of it had an unknown outcome.
	again bool
}

// key is the order key; a row that has none is alone with its own.
func (it *item) key() string {
	if it.from == FromParked {
		return it.parkedAs
	}
	if it.row.Event == nil {
		return keyOf(it.row.ID, "")
	}
	return keyOf(it.row.ID, it.row.Event.AggregateID)
}

// size estimates what the row takes in memory and on the wire.
func (it *item) size() int {
	const frame = 512
	if it.row.Event == nil {
		return frame
	}
	n := frame + len(it.row.Event.Payload) + len(it.row.Event.Envelope)
	for k, v := range it.row.Event.Headers {
		n += len(k) + len(v)
	}
	return n
}

// flight is the batch of a destination that the broker has not answered.
type flight struct {
	batch int64 // 0: none
	life  int64
	items []item
	trial bool // suspects, and nothing else is in flight
	// ids are those of rows of the log among items, sorted, where events may have
	// several destinations.
	ids []int64
}

// destination is a topic of a broker: what waits for it, what is in flight to it,
// and what keeps it from taking more.
type destination struct {
	name string // see DestinationName
	// line is the way to its broker, topic its name there.
	line  *line
	topic string
	// topics are those of the outbox's rows that come here, where that takes
	// routes to know. Sorted.
	topics []string
	// shares is true once an event came here that goes elsewhere too.
	shares bool
	// reader is its own one; nil while the main reader serves it.
	reader *reader
	// took are the ids that the main reader has not seen and its own one had, when
	// it was given up. Sorted.
	took []int64
	// queue waits in order; queue[:head] is gone.
	queue []item
	head  int
	bytes int
	// drain holds parked rows that may be sent now, in order of arrival. They
	// go before the queue and never share a key with it.
	drain  []item
	flight flight
	keys   map[string]*parkedKey // parked keys
	due    dueKeys

	pacing
	// held is true while it may take nothing: it is paused or its circuit is
	// open.
	held      bool
	fullSince time.Time
	// later is true while rows of t_outbox_extra must wait until the reader
	// has probed what lies before them.
	later bool
	// passed is true once a look at t_outbox_extra has left a row of it behind:
	// it leaves those that follow too. left: there was such a row, and not because
	// an earlier one may be found; owed: the log of it waits for those rows.
	passed, left, owed bool
	// inHand counts its rows of the tables of delayed and extra ones, of which it
	// got the last at handAt.
	inHand [SideExtra + 1]int
	handAt time.Time
	// withheld is true while delayed ones of it wait until those are done.
	withheld bool
	// window counts rows that are still in doubt after unclean ends.
	window int
}

// forget drops what belongs to one life. The batch in flight, and what is
// known of the broker, stay.
func (d *destination) forget() {
	d.reader, d.took, d.shares = nil, nil, false
	d.queue, d.head, d.bytes, d.drain = nil, 0, 0, nil
	d.flight.items, d.flight.ids = nil, nil
	d.keys, d.due, d.topics = nil, nil, nil
	d.fullSince, d.later, d.window = time.Time{}, false, 0
	d.passed, d.left, d.owed = false, false, false
	d.inHand, d.withheld = [SideExtra + 1]int{}, false
}

// waiting counts rows in memory that are not in flight.
func (d *destination) waiting() int { return len(d.queue) - d.head + len(d.drain) }

// destination finds a topic, or makes it known.
func (m *Machine) destination(name string) *destination {
	if m.last != nil && m.last.name == name {
		return m.last
	}
	i, ok := slices.BinarySearchFunc(m.dests, name, func(d *destination, name string) int { return cmp.Compare(d.name, name) })
	if !ok {
		m.dests = slices.Insert(m.dests, i, m.newDestination(name))
	}
	m.last = m.dests[i]
	return m.last
}

func (m *Machine) newDestination(name string) *destination {
	d := &destination{name: name, topic: name, window: m.sus.window}
	broker, topic := splitName(name)
	if _, known := m.cfg.Brokers[broker]; known || m.routing.used() {
		d.topic = topic
	} else {
		broker = "" // where there were never any routes an @ is a letter of the topic
	}
	d.line = m.line(broker)
	d.rate = m.cfg.RateLimit[name]
	d.tokens, d.filled = burst(d.rate), m.now
	d.paused = m.ctl.Paused("topic", name)
	return d
}

// full reports whether d holds all that it may: the next batch and one more.
func (m *Machine) full(d *destination) bool {
	return len(d.queue)-d.head >= 2*m.cfg.BatchRows || d.bytes >= 2*m.cfg.BatchBytes
}

// enqueue puts a row in the queue of its destination, or aside if its time is
// not near. Whether it can be sent is decided when its turn has come.
func (m *Machine) enqueue(d *destination, it item) {
	if it.row.Event == nil && it.row.Defect == "" {
		it.row.Defect = "it has no event"
	}
	if it.row.Defect == "" && m.isDelayed(&it) { // what is no event does not wait to be told so
		m.delay(d, &it)
		return
	}
	it.weight = it.size()
	d.push(it)
}

// push adds it in order; rows nearly always come in order.
func (d *destination) push(it item) {
	d.bytes += it.weight
	if n := len(d.queue); n == d.head || d.queue[n-1].order <= it.order {
		if d.head > 0 && len(d.queue) == cap(d.queue) {
			d.compact()
		}
		d.queue = append(d.queue, it)
		return
	}
	i, _ := slices.BinarySearchFunc(d.queue[d.head:], it.order+1, func(o item, order int64) int { return cmp.Compare(o.order, order) })
	d.queue = slices.Insert(d.queue, d.head+i, it)
}

// compact moves the queue to the front of its array, so that it does not grow.
func (d *destination) compact() {
	n := copy(d.queue, d.queue[d.head:])
	clear(d.queue[n:])
	d.queue, d.head = d.queue[:n], 0
}

// filter keeps the waiting rows for which keep returns true.
func (d *destination) filter(keep func(*item) bool) {
	d.compact()
	left := d.queue[:0]
	d.bytes = 0
	for i := range d.queue {
		if keep(&d.queue[i]) {
			d.bytes += d.queue[i].weight
			left = append(left, d.queue[i])
		}
	}
	clear(d.queue[len(left):])
	d.queue = left
}

// drop lets go of what waits for a destination that has its own reader: rows
// of the log are read again as unseen ids, others stay in their side tables.
func (m *Machine) drop(d *destination) {
	var ids []int64
	d.filter(func(it *item) bool {
		if it.again {
			m.stats.PublishedAgain++ // it will be, and nobody remembers then
		}
		if it.from == FromLog {
			ids = append(ids, it.row.ID)
		} else {
			m.sides.letGo(d, it.from, m.now)
		}
		return false
	})
	if len(ids) > 0 {
		d.reader.add(ids, m.now)
	}
	m.dropDrain(d)
}

// planHeld finds out which destinations may take nothing now. A held one gives
// up what can be read again: all of it if it has its own reader, otherwise
// what is in side tables.
func (m *Machine) planHeld() {
	for _, d := range m.dests {
		held := m.ctl.relayPaused || d.paused || d.line.missing || d.open && !m.reached(d.until)
		if d.held && !held {
			m.sides.released(m.now)
		}
		began := held && !d.held
		d.held = held
		switch {
		case !held || d.waiting() == 0:
		case d.reader != nil:
			m.drop(d)
		case began:
			m.dropSide(d)
		}
	}
}

// dropSide lets go of waiting rows that are in side tables.
func (m *Machine) dropSide(d *destination) {
	d.filter(func(it *item) bool {
		if it.from != FromLog {
			m.sides.letGo(d, it.from, m.now)
		}
		return it.from == FromLog
	})
	m.dropDrain(d)
}
