package sim

import (
	"errors"
	"strconv"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

// relayMember is a process that runs a relay machine: store commands one after
// the other, publishes beside them.
type relayMember struct {
	*process
	outbox  *outboxModel
	lane    *laneModel
	machine *relay.Machine
	log     *logModel
	queue   []relay.Command
	busy    bool
	tick    int
}

func (w *World) addRelay(o *outboxModel, lane *laneModel, i int) {
	name := o.name + "-relay-" + string(rune('1'+i))
	if lane.Number > 0 {
		name += "-lane-" + strconv.Itoa(lane.Number)
	}
	r := &relayMember{process: w.newProcess(name, o), outbox: o, lane: lane}
	r.start, r.end = r.begin, func() { r.in(relay.Stopping{}) }
	r.jolt = func() { r.in(relay.Tick{}) }
	w.relays = append(w.relays, r)
	w.After(w.between(0, 20*time.Millisecond), r.born)
}

func (r *relayMember) begin() {
	w := r.w
	r.queue, r.busy, r.log = nil, false, &logModel{o: r.outbox}
	cfg := relay.Config{
		Owner: r.owner, Lane: r.lane.Number, LeaseTTL: w.LeaseTTL, BatchRows: w.BatchRows, BatchBytes: w.BatchBytes, MaxIdle: 25 * time.Millisecond,
		Retry: settle.Backoff{Base: 20 * time.Millisecond, Max: 300 * time.Millisecond, Attempts: w.RelayRetries},
		Pass:  w.RelayPass, KeepFor: w.KeepFor, DelayAhead: w.DelayAhead, PublishTimeout: w.LeaseTTL / 4,
		HoleAge: 50 * time.Millisecond, HoleGrace: time.Second, SweepEvery: 300 * time.Millisecond, RetainEvery: 200 * time.Millisecond,
		SuspectAfter: suspectAfter, CrashAttempts: crashAttempts,
	}
	if w.Routed {
		cfg.Routes, cfg.Brokers = w.routes, map[string]settle.Publisher{otherBroker: nil}
	}
	if w.RateLimit > 0 {
		cfg.RateLimit = map[string]float64{}
		for _, t := range w.broker.topics {
			cfg.RateLimit[t.name] = w.RateLimit
		}
	}
	r.machine = relay.NewMachine(cfg)
	r.in(relay.Tick{})
}

const (
	suspectAfter  = 2
	crashAttempts = 3
)

// in passes an input to the machine and does what follows.
func (r *relayMember) in(in relay.Input) {
	if !r.alive {
		return
	}
	r.tick++
	// The machine uses the slice again, and what is done may lead to a Step.
	cmds := append([]relay.Command(nil), r.machine.Step(r.now(), in)...)
	r.w.check.relayMemory(r)
	life := r.life
	for _, c := range cmds {
		if r.life != life || !r.alive {
			return
		}
		r.do(c)
	}
	r.next()
}

func (r *relayMember) do(c relay.Command) {
	switch c := c.(type) {
	case relay.WaitUntil:
		tick := r.tick
		r.alarm(c.At, func() bool { return tick == r.tick }, func() { r.in(relay.Tick{}) })
	case relay.Halt:
		r.halted(c.Err)
	case relay.Publish:
		r.mayDie()
		r.publish(c)
	default:
		r.mayDie()
		r.queue = append(r.queue, c)
	}
}

func (r *relayMember) halted(err error) {
	r.w.hist.note(r.w.Since(), r.name, "ends")
	if r.w.halts >= 0 && errors.Is(err, settle.ErrNewGeneration) {
		r.w.halts++
		r.alive = false
		return
	}
	if errors.Is(err, relay.ErrLaneEnded) {
		if !r.lane.ended {
			r.w.fail("no needless halt", "%s says that lane %d has ended", r.name, r.lane.Number)
		}
		r.held = true
		r.gone()
		return
	}
	if err != nil {
		r.w.fail("no needless halt", "%s stopped for good: %v", r.name, err)
	}
	if r.ending {
		r.w.probes.hit("relay ended cleanly")
	}
	r.gone()
}

// next sends the first waiting store command, if none is under way.
func (r *relayMember) next() {
	if r.busy || len(r.queue) == 0 {
		return
	}
	c := r.queue[0]
	r.queue, r.busy = r.queue[1:], true
	asked, log, run := r.now(), r.log, 0
	var in relay.Input
	answer := func(err error) {
		r.busy = false
		if err != nil {
			in = relay.Failed{Command: c, Err: err}
		}
		log.hears(c, in, run)
		r.w.hist.note(r.w.Since(), r.name, "hears", named(in))
		r.w.hist.detail(in)
		r.in(in)
	}
	if ask, ok := c.(relay.AskOwners); ok && r.w.InnoDB {
		r.askOwners(ask.Before, func(e relay.Evidence, err error) {
			in = relay.OwnersSeen{Evidence: e}
			answer(err)
		})
		return
	}
	r.call(func() (err error) {
		run = r.outbox.runs()
		in, err = r.exec(log, c, asked)
		return err
	}, answer)
}

// exec does a store command at the store.
func (r *relayMember) exec(log *logModel, c relay.Command, asked time.Time) (in relay.Input, err error) {
	o := r.outbox
	r.w.hist.note(r.w.Since(), r.name, "asks", named(c))
	r.w.hist.detail(c)
	switch c.(type) {
	case relay.Poll, relay.Commit, relay.Sweep, relay.Retain:
		if err := log.fenced(); err != nil {
			return nil, err
		}
	}
	switch c := c.(type) {
	case relay.Lead:
		l := o.Lead(c.Owner, c.Lane, c.TTL)
		l.Expires = asked.Add(c.TTL)
		return relay.Elected{Lease: l}, nil
	case relay.Resign:
		return relay.Resigned{}, o.Resign(c.Lease)
	case relay.Load:
		s, err := o.Load(c.Lease)
		return relay.Loaded{State: s}, err
	case relay.Poll:
		return relay.Polled{Destination: c.Destination, Query: c.Query, Page: o.Poll(r.lane, c.Query)}, nil
	case relay.ReadSide:
		return relay.SideLoaded{Query: c.Query, Page: o.Side(r.lane, c.Query)}, nil
	case relay.Commit:
		return relay.Committed{ID: c.ID}, o.Commit(c.Lease, c.Flush)
	case relay.AskOwners:
		return relay.OwnersSeen{Evidence: o.Owners(c.Before)}, nil
	case relay.Sweep:
		n, err := o.Sweep(c.Lease, c.Limit)
		return relay.Swept{Found: n}, err
	case relay.Retain:
		n, err := o.Retain(c.Lease, c.Before, c.Limit)
		return relay.Retained{Rows: n}, err
	case relay.LoadControls:
		return relay.ControlsLoaded{Controls: o.Controls(r.lane)}, nil
	}
	panic("unknown store command")
}

// publish sends a batch. It may be lost, its answer may be lost, and it may
// arrive when the process has long given it up.
func (r *relayMember) publish(c relay.Publish) {
	w, life := r.w, r.life
	w.hist.note(w.Since(), r.name, "publishes", c.Batch, c.Destination, len(c.Messages), c.Messages[0].Event.ID)
	r.outbox.check.published(r.lane.Number, c)
	for _, m := range c.Messages {
		r.outbox.check.sends(r.lane, m.Event)
		if f := w.fates[m.Event.ID]; f.kills && !f.cured {
			w.probes.hit("event killed the relay")
			r.crash("of event " + m.Event.ID)
			return
		}
	}
	receipts := make([]settle.Receipt, len(c.Messages))
	for i := range receipts {
		receipts[i].Err = &settle.PublishError{Scope: settle.ScopeBroker, Err: errBroker}
	}
	answered := false
	answer := func() {
		if !answered {
			answered = true
			r.in(relay.Published{Batch: c.Batch, Receipts: receipts})
		}
	}
	r.later(c.Timeout, answer)
	arrive, back := w.between(w.CallTime/4, w.CallTime), w.between(w.CallTime/4, w.CallTime)
	if t := w.broker.topic(c.Destination); t != nil && t.slowTill > w.Since() {
		arrive += w.between(0, c.Timeout)
	}
	lostAnswer := w.chance(w.LostAck)
	switch {
	case r.cutOff || w.chance(w.LostPublish):
		return
	case w.chance(w.LatePublish):
		arrive += c.Timeout
		w.probes.hit("publish arrived late")
	}
	w.After(arrive, func() {
		if w.broker.isDown(c.Broker) || (r.life != life && w.chance(0.5)) {
			return
		}
		got := w.broker.Publish(c.Broker, c.Messages)
		if lostAnswer || r.cutOff {
			w.probes.hit("acknowledgement lost")
			return
		}
		w.After(back, func() {
			r.hear(life, func() {
				if !answered {
					receipts = got
				}
				answer()
			})
		})
	})
}

// wake is the doorbell.
func (r *relayMember) wake() { r.in(relay.Woken{}) }
