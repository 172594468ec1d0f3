// Package sim runs the relay and consumer machines on a simulated store,
// broker, network and clock, all of it from one seed, breaks what can break,
// and checks after every step that the promises hold.
//
// There are two stories: plain.go, which means nothing and reaches all that the
// machines can do, and shop.go, the six services of examples/shop. Half messages
// have a world of their own, half.go.
//
// A run has two phases. In the first, faults happen while producers write; in
// the second, everything works, people repair what needs them, and all must
// settle. The same seed gives the same run.
//
// Read world.go and story.go, then process.go (what lives, dies and waits), the models
// (outboxtable.go, outboxmodel.go, brokermodel.go, inboxmodel.go; innodb*.go and
// logmodel.go for what MySQL does otherwise), the glue to
// the machines (relaymember.go, consumermember.go) and invariants.go.
package sim

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

// World is one seed's simulation.
type World struct {
	Swarm
	Clock
	dice
	hist   History
	probes Probes
	check  *checker

	story     story
	outboxes  []*outboxModel
	broker    *brokerModel
	inboxes   []*inboxModel
	relays    []*relayMember
	consumers []*consumerMember
	processes []*process

	routes     []relay.Route   // of relays that begin now
	everRouted [][]relay.Route // all that there ever were

	dbSkew   time.Duration // the databases' clock against the true one
	eventIDs []string      // of all events ever inserted, in order
	fates    map[string]*fate
	halts    int      // relays that have ended because the table was made anew; -1: none may
	unwell   []window // when what handlers depend on does not answer
	lives    int      // incarnations of processes so far
}

type window struct{ from, to time.Duration }

// Limits of a run.
const (
	faultTime = 6 * time.Second
	calmTime  = 60 * time.Second // and as much again for every 20 transactions, or 40 events
	maxSteps  = 2_000_000
)

// Violation is a broken promise.
type Violation struct {
	// Invariant is its name, Detail what was seen.
	Invariant, Detail string
	At                time.Duration
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s, after %v: %s", v.Invariant, v.At, v.Detail)
}

// Result is what became of one seed.
type Result struct {
	Seed      uint64
	Swarm     Swarm
	Violation *Violation
	Hash      uint64
	Happened  int
	Simulated time.Duration
	Probes    Probes
	History   *History
}

// Run runs one seed of a world whose events mean nothing: many keys and topics,
// and groups that do all that a group may. With keep, the history can be read
// afterwards.
func Run(seed uint64, keep bool) Result {
	w := newWorld(seed, keep)
	newPlain(w, false)
	return w.result(seed)
}

// RunRouted runs one seed of such a world with a second broker, and routes that
// are changed.
func RunRouted(seed uint64, keep bool) Result {
	w := newWorld(seed, keep)
	newPlain(w, true)
	return w.result(seed)
}

// RunFanned runs one seed of such a world in which most events go to both brokers.
func RunFanned(seed uint64, keep bool) Result {
	w := newWorld(seed, keep)
	w.Fanned = true
	newPlain(w, true)
	return w.result(seed)
}

// result runs a world and tells what became of it.
func (w *World) result(seed uint64) (r Result) {
	defer func() {
		if v := recover(); v != nil {
			violation, ok := v.(*Violation)
			if !ok {
				violation = &Violation{Invariant: "no panic", Detail: fmt.Sprintf("%v\n%s", v, debug.Stack()), At: w.Since()}
			}
			r.Violation = violation
		}
		r.Seed, r.Swarm, r.Hash, r.Happened, r.Simulated = seed, w.Swarm, w.hist.hash, w.hist.count, w.Since()
		r.Probes, r.History = w.probes, &w.hist
	}()
	w.run()
	return r
}

func newWorld(seed uint64, keep bool) *World {
	w := &World{dice: newDice(seed), probes: Probes{}, halts: -1, fates: map[string]*fate{}}
	w.hist.keep = keep
	w.check = newChecker(w)
	return w
}

func (w *World) run() {
	for _, o := range w.outboxes {
		for i := range w.Relays {
			w.addRelay(o, o.lanes[0], i)
		}
	}
	for _, x := range w.inboxes {
		for i := range x.group.Members {
			w.addConsumer(x, i)
		}
	}
	w.story.plan()
	w.planNemesis()
	for steps := 0; w.Since() < faultTime && w.Step(); steps++ {
		w.bound(steps)
	}
	w.heal()
	for steps := 0; w.Step(); steps++ {
		w.bound(steps)
		if w.check.settledBy() {
			w.check.end()
			w.story.end()
			return
		}
		if calm := calmTime * time.Duration(1+max(w.Transactions, len(w.eventIDs)/2)/20); w.Since() > faultTime+calm {
			w.fail("liveness", "not settled %v after the last fault: %s", calm, w.check.unsettled())
		}
	}
	w.fail("liveness", "nothing happens any more: %s", w.check.unsettled())
}

func (w *World) bound(steps int) {
	if steps > maxSteps {
		w.fail("liveness", "no end after %d steps: %s", steps, w.check.unsettled())
	}
}

// heal ends the faults.
func (w *World) heal() {
	w.Phase = phaseCalm
	w.hist.note(w.Since(), "nemesis", "faults end")
	w.LostCall, w.LostAnswer, w.LateCall, w.LostCommit, w.Crash, w.PartialBatch = 0, 0, 0, 0, 0, 0
	w.LockWaits, w.Deadlocks = 0, 0
	w.LostAck, w.LostPublish, w.LatePublish = 0, 0, 0
	w.OutsideLost, w.OutsideHangs, w.OutsideAway = 0, 0, 0
	for _, p := range w.processes {
		p.cut, p.cutOff = false, false
		p.resume()
	}
	w.broker.down, w.broker.otherDown = false, false
	for _, t := range w.broker.topics {
		t.brokenTill, t.slowTill = 0, 0
	}
	w.unwell = nil
	w.repairLater()
}

// fail ends the run with a broken promise.
func (w *World) fail(invariant, format string, args ...any) {
	panic(&Violation{Invariant: invariant, Detail: fmt.Sprintf(format, args...), At: w.Since()})
}

// dbNow is the databases' clock.
func (w *World) dbNow() time.Time { return w.Now().Add(w.dbSkew) }

func (w *World) wakeConsumers() {
	for _, c := range w.consumers {
		c.sub.poke()
	}
}

// fate is what happens to one event on its way, decided when it is made.
type fate struct {
	from      *outboxModel
	refused   int  // how often the broker refuses it; -1 until it is cured
	defective bool // its row can't become an event
	kills     bool // the relay dies of encoding it
	byGroup   map[string]*handling
	cured     bool
}

// handling is what a group's handler does with one event.
type handling struct {
	kind handlingKind
	left int // how often it still does so; -1: until it is cured
}

type handlingKind int

const (
	handles handlingKind = iota
	fails
	failsForGood
	rejects
	panics
	kills
)

func (w *World) defective(e *settle.Event) bool { return w.fates[e.ID].defective }

// refuses asks whether the broker refuses e this time.
func (w *World) refuses(e *settle.Event) bool {
	f := w.fates[e.ID]
	if f.refused == 0 || f.cured {
		return false
	}
	return true
}

func (w *World) unwellNow() bool {
	for _, u := range w.unwell {
		if w.Since() >= u.from && w.Since() < u.to {
			return true
		}
	}
	return false
}
