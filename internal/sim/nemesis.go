package sim

import "time"

// planNemesis schedules the faults that are not answers to a call.
func (w *World) planNemesis() {
	often := func(enabled bool, n int, f func()) {
		if enabled {
			for range w.from(1, n) {
				w.After(w.between(100*time.Millisecond, faultTime), f)
			}
		}
	}
	often(w.Crash > 0, 4, func() { w.someProcess().crash("by a signal") })
	often(w.Pauses, 5, func() { w.stopOne(false) })
	often(w.Suspends, 4, func() { w.stopOne(true) })
	often(w.Stops, 3, w.endOne)
	often(w.StoreCuts, 3, w.cutStore)
	often(w.BrokerStops, 2, w.stopBroker)
	often(w.BrokerStops, 2, w.cutBroker)
	often(w.BrokerStops && w.Routed, 3, w.stopOther)
	often(w.TopicBreaks, 3, w.breakTopic)
	often(w.SlowTopic, 3, w.slowTopic)
	often(w.DatabaseCrashes, 6, w.crashDatabase)
	often(w.ClockJumps, 4, w.jumpClock)
	often(w.Foreign > 0, 3, func() { w.broker.foreign(w.broker.topics[w.IntN(len(w.broker.topics))]) })
	often(true, 3, w.reassign)
	for range w.from(1, 3) {
		from := w.between(0, faultTime)
		w.unwell = append(w.unwell, window{from, from + w.between(20*time.Millisecond, 500*time.Millisecond)})
	}
	for _, x := range w.inboxes {
		often(x.group.LeftOvers > 0, 6, func() { w.leaveOver(x) })
		often(x.group.DedupWindow > 0, 12, func() { x.Forget(w.dbNow().Add(-x.group.DedupWindow), 100) })
	}
}

func (w *World) someProcess() *process { return w.processes[w.IntN(len(w.processes))] }

// stopOne stops a process, often for longer than its lease.
func (w *World) stopOne(suspend bool) {
	p := w.someProcess()
	p.pause(w.between(w.LeaseTTL/4, 2*w.LeaseTTL), suspend)
	if w.chance(0.5) {
		w.After(w.between(50*time.Millisecond, 300*time.Millisecond), w.reassign)
	}
}

func (w *World) endOne() {
	p := w.someProcess()
	if p.alive && !p.stopped && !p.ending {
		p.ending = true
		w.hist.note(w.Since(), p.name, "is asked to end")
		p.end()
	}
}

func (w *World) cutStore() {
	p := w.someProcess()
	p.cut = true
	w.hist.note(w.Since(), p.name, "is cut from its store")
	w.After(w.between(20*time.Millisecond, 2*w.LeaseTTL), func() { p.cut = false })
}

func (w *World) cutBroker() {
	p := w.someProcess()
	p.cutOff = true
	w.hist.note(w.Since(), p.name, "is cut from the broker")
	for _, c := range w.consumers {
		if c.process == p && p.alive && !p.stopped {
			c.sub.withdraw()
		}
	}
	w.After(w.between(20*time.Millisecond, w.LeaseTTL), func() { p.cutOff = false; w.wakeConsumers() })
}

func (w *World) stopBroker() {
	w.broker.down = true
	w.hist.note(w.Since(), "broker", "stops")
	for _, c := range w.consumers {
		if c.alive && !c.stopped {
			c.sub.withdraw()
		}
	}
	w.After(w.between(50*time.Millisecond, time.Second), func() {
		w.broker.down = false
		w.hist.note(w.Since(), "broker", "is back")
		w.wakeConsumers()
	})
}

func (w *World) breakTopic() {
	t := w.broker.topics[w.IntN(len(w.broker.topics))]
	t.brokenTill = w.Since() + w.between(50*time.Millisecond, 2*time.Second)
	w.hist.note(w.Since(), "broker", "takes nothing for", t.name)
}

func (w *World) slowTopic() {
	t := w.broker.topics[w.IntN(len(w.broker.topics))]
	t.slowTill = w.Since() + w.between(200*time.Millisecond, 2*time.Second)
	w.hist.note(w.Since(), "broker", "is slow for", t.name)
}

// crashDatabase ends every connection; what is in flight gets no answer.
func (w *World) crashDatabase() {
	o := w.someOutbox()
	w.hist.note(w.Since(), o.name, "crashes")
	w.probes.hit("database crashed")
	for _, r := range w.relays {
		// The driver of MySQL replaces a connection that has died unused, and
		// nobody is told.
		told := !w.InnoDB || w.chance(0.3)
		r.broken = r.broken || (r.alive && r.outbox == o && told)
	}
	o.crash()
	o.check.places()
}

// jumpClock moves the clock of a process, or of the databases.
func (w *World) jumpClock() {
	d := w.between(-2*time.Second, 2*time.Second)
	if w.chance(0.4) {
		w.dbSkew += d
		w.hist.note(w.Since(), "databases", "clock jumps", int64(d))
		return
	}
	p := w.someProcess()
	p.skew += d
	w.hist.note(w.Since(), p.name, "clock jumps", int64(d))
	if p.alive {
		life := p.life
		p.hear(life, p.jolt)
	}
}

// reassign lets brokers that assign partitions share them out anew, and forget
// acknowledgements.
func (w *World) reassign() {
	for _, x := range w.inboxes {
		if !x.group.Owned {
			w.assign(x)
		}
	}
	w.rewind()
}

// leaveOver is a foreign consumer of the group that has begun an event and
// died: its row says PROCESSING.
func (w *World) leaveOver(x *inboxModel) {
	for i := len(w.eventIDs) - 1; i >= 0 && i > len(w.eventIDs)-4; i-- {
		id := w.eventIDs[i]
		if x.log[id] == nil && !x.ever[id] && w.chance(0.6) {
			x.setLog(id, logProcessing, w.dbNow())
			x.undo = x.undo[:0]
			return
		}
	}
}
