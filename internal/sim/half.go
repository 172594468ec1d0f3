package sim

import (
	"fmt"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/txmsg"
)

// halfWorld is one seed's simulation of half messages: processes that send and
// answer, one database, one broker.
type halfWorld struct {
	Clock
	dice
	hist      History
	probes    Probes
	ledger    *halfLedger
	broker    *halfBroker
	processes []*halfProcess
	calm      bool // nothing breaks any more
	sent      int  // sends that were begun
}

const (
	halfFaultTime = 30 * time.Second
	halfCalmTime  = 10 * time.Minute
	halfSends     = 25
)

// RunHalf runs one seed of processes that send half messages: ends and answers are
// lost, checks come early, late and while a transaction is open, processes die at
// any step, commits come after their process has died, the broker gives up, is away
// or refuses a topic.
func RunHalf(seed uint64, keep bool) (r Result) {
	w := &halfWorld{dice: newDice(seed), probes: Probes{}}
	w.hist.keep = keep
	defer func() {
		if v := recover(); v != nil {
			violation, ok := v.(*Violation)
			if !ok {
				violation = &Violation{Invariant: "no panic", Detail: fmt.Sprint(v), At: w.Since()}
			}
			r.Violation = violation
		}
		r.Seed, r.Hash, r.Happened, r.Simulated, r.Probes, r.History = seed, w.hist.hash, w.hist.count, w.Since(), w.probes, &w.hist
	}()
	w.run()
	return r
}

// ExpectedOfHalves are the places that a run of many seeds must have come to.
func ExpectedOfHalves() []string {
	return []string{
		"half: check answered COMMIT", "half: check answered ROLLBACK", "half: check answered UNKNOWN", "half: foreign check", "half: check during a transaction",
		"half: end lost", "half: answer to an end lost", "half: given up by the broker", "half: sent anew", "half: dead letter", "half: process died",
		"half: commit after the death", "half: commit in doubt", "half: transaction longer than the broker waits", "half: checked by another process",
		"half: delivered twice", "half: begun after it was barred", "half: broker away",
	}
}

func (w *halfWorld) broken(invariant, format string, args ...any) {
	panic(&Violation{Invariant: invariant, Detail: fmt.Sprintf(format, args...), At: w.Since()})
}

func (w *halfWorld) run() {
	w.ledger = &halfLedger{w: w, rows: map[string]*halfRow{}, open: map[string]bool{}}
	w.broker = &halfBroker{w: w, halves: map[txmsg.Handle]*halfMessage{}}
	for i := range 2 {
		p := &halfProcess{w: w, name: fmt.Sprintf("p%d", i+1)}
		w.processes = append(w.processes, p)
		p.start()
	}
	w.broker.plan()
	for range halfSends {
		w.After(w.between(0, halfFaultTime), func() { w.processes[w.IntN(len(w.processes))].send() })
	}
	for range w.from(0, 6) {
		w.After(w.between(0, halfFaultTime), func() { w.processes[w.IntN(len(w.processes))].die() })
	}
	w.After(halfFaultTime, func() { w.calm = true })
	for end := halfFaultTime + halfCalmTime; w.Since() < end && w.Step(); {
		if w.calm && w.settled() == "" {
			w.end()
			return
		}
	}
	w.broken("everything settles", "after %v of calm: %s", halfCalmTime, w.settled())
}

// settled says what is open yet.
func (w *halfWorld) settled() string {
	for _, id := range w.ledger.order {
		if r := w.ledger.rows[id]; r.committed && !r.confirmed {
			if r.dead { // a person has the broker mended, and replays it
				r.dead, r.tries, r.due = false, 0, w.Since()
				w.probes.hit("half: dead letter")
			}
			return "record " + id + " is not confirmed"
		}
	}
	for _, p := range w.processes {
		if p.sending > 0 {
			return p.name + " is sending"
		}
	}
	if w.Since() < halfFaultTime+time.Minute { // what the broker asks late
		return "it is early"
	}
	return ""
}

// end checks what must have come of it all.
func (w *halfWorld) end() {
	for _, id := range w.ledger.order {
		if w.ledger.rows[id].committed && w.broker.delivered[id] == 0 {
			w.broken("what is committed is delivered", "%s is not", id)
		}
	}
}

// halfProcess is one process of the service: a machine, and sends under way.
type halfProcess struct {
	w       *halfWorld
	name    string
	life    int
	alive   bool
	known   bool // to the broker
	hearing bool
	m       *txmsg.Machine
	sending int
	judges  []time.Duration // when the database was asked
	wakeAt  time.Time
}

func (w *halfWorld) config(name string) txmsg.Config {
	return txmsg.Config{
		Owner: name, SweepAfter: 8 * time.Second, SweepEvery: 3 * time.Second, ChecksAtOnce: 2, ChecksPerSecond: 1,
		Retry: settle.Backoff{Base: time.Second, Max: 4 * time.Second, Attempts: 3},
	}
}

func (p *halfProcess) start() {
	p.life++
	p.alive, p.known, p.hearing, p.sending, p.judges = true, false, false, 0, nil
	p.wakeAt = time.Time{}
	p.m = txmsg.NewMachine("here", p.w.config(p.name))
	p.step(nil)
}

// die ends the process as SIGKILL does; another begins later.
func (p *halfProcess) die() {
	if !p.alive || p.w.calm {
		return
	}
	p.w.probes.hit("half: process died")
	p.w.hist.note(p.w.Since(), p.name, "dies")
	p.alive, p.known, p.hearing = false, false, false
	p.w.After(p.w.between(0, 6*time.Second), p.start)
}

// later runs f unless the process has died by then.
func (p *halfProcess) later(d time.Duration, f func()) {
	life := p.life
	p.w.After(d, func() {
		if p.alive && p.life == life {
			f()
		}
	})
}

func (p *halfProcess) step(in txmsg.Input) {
	now := p.w.Now()
	if in != nil {
		p.w.hist.note(p.w.Since(), p.name, named(in))
	}
	for _, c := range p.m.Step(now, in) {
		p.do(c)
	}
	if at := p.m.Next(now); p.wakeAt.Before(now) || at.Before(p.wakeAt) || p.wakeAt.Equal(now) {
		p.wakeAt = at
		p.later(at.Sub(now), func() { p.step(nil) })
	}
}

// answer steps with what f returns, some time later.
func (p *halfProcess) answer(f func() txmsg.Input) {
	p.later(p.w.between(time.Millisecond, 50*time.Millisecond), func() {
		in := f()
		p.later(p.w.between(time.Millisecond, 50*time.Millisecond), func() { p.step(in) })
	})
}

func (p *halfProcess) do(c txmsg.Command) {
	w := p.w
	w.hist.note(w.Since(), p.name, named(c))
	switch c := c.(type) {
	case txmsg.WarmUp:
		p.answer(func() txmsg.Input {
			err := w.broker.away()
			p.known = p.known || err == nil
			return txmsg.Warmed{Err: err}
		})
	case txmsg.Listen:
		p.hearing = true
		if !w.calm && w.chance(0.3) {
			p.later(w.between(0, 10*time.Second), func() {
				p.hearing, p.known = false, false
				p.step(txmsg.Deaf{Err: errHalfAway})
			})
		}
	case txmsg.Judge:
		p.judged()
		p.answer(func() txmsg.Input {
			v, err := w.ledger.judge(c.Inquiry)
			return txmsg.Judged{Check: c.Check, Verdict: v, Err: err}
		})
	case txmsg.Answer:
		p.answer(func() txmsg.Input {
			return txmsg.Replied{Check: c.Check, Verdict: c.Verdict, Err: w.broker.answered(p, c.Check, c.Verdict)}
		})
	case txmsg.Note:
		p.answer(func() txmsg.Input { return txmsg.Noted{Err: w.ledger.fault()} })
	case txmsg.Confirm:
		ids := append([]string(nil), c.IDs...)
		p.answer(func() txmsg.Input { return txmsg.ConfirmedAll{Err: w.ledger.confirm(ids)} })
	case txmsg.Look:
		p.answer(func() txmsg.Input {
			open, err := w.ledger.dueNow(c.Limit, c.Hold)
			return txmsg.Found{Open: open, Err: err}
		})
	case txmsg.EndAgain:
		p.answer(func() txmsg.Input {
			return txmsg.EndedAgain{Open: c.Open, Err: w.broker.end(c.Open.Handle, txmsg.Commit, false)}
		})
	case txmsg.SendAnew:
		p.answer(func() txmsg.Input {
			w.probes.hit("half: sent anew")
			h, err := w.broker.keep(c.Open.ID)
			return txmsg.SentAnew{Open: c.Open, Handle: h, Err: err}
		})
	case txmsg.MarkOpen:
		if c.Mark.Result != txmsg.ResultMoved && (c.Mark.Cause == errHalfAway.Error() || c.Mark.Cause == errHalfTopic.Error()) && c.Mark.Tries > c.Open.Tries {
			w.broken("a broker that is away or takes nothing for a topic costs no try", "%s was tried %d times", c.Open.ID, c.Mark.Tries)
		}
		p.answer(func() txmsg.Input { return txmsg.Marked{Open: c.Open, Mark: c.Mark, Err: w.ledger.mark(c.Mark)} })
	case txmsg.Purge:
		p.answer(func() txmsg.Input { return txmsg.Purged{} })
	}
}

// judged checks how fast the database is asked.
func (p *halfProcess) judged() {
	now := p.w.Since()
	p.judges = append(p.judges, now)
	recent := 0
	for _, at := range p.judges {
		if now-at < time.Second {
			recent++
		}
	}
	if recent > 2+1 { // what had gathered, and what a second brings
		p.w.broken("the database is asked no faster than it may be", "%d times in a second", recent)
	}
}

// send begins a send, if the process lives and runs.
func (p *halfProcess) send() {
	if !p.alive || !p.m.Stats().Ready {
		return
	}
	w := p.w
	w.sent++
	id := txmsg.TransactionID("here", fmt.Sprint(w.sent))
	e := &settle.Event{ID: "e" + id, Type: "order.created", AggregateID: "o", Topic: "orders"}
	p.sending++
	o := &halfSend{p: p, id: id, m: txmsg.NewSending(id, e)}
	o.do(o.m.Step(nil))
}
