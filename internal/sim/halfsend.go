package sim

import (
	"time"

	"github.com/settlemq/settle/txmsg"
)

// halfSend is one send under way.
type halfSend struct {
	p  *halfProcess
	id string
	m  *txmsg.Sending
}

// next goes on with what f returns, some time later.
func (o *halfSend) next(f func() any) {
	p := o.p
	p.later(p.w.between(time.Millisecond, 50*time.Millisecond), func() {
		in := f()
		p.later(p.w.between(time.Millisecond, 50*time.Millisecond), func() { o.do(o.m.Step(in)) })
	})
}

func (o *halfSend) do(c any) {
	w := o.p.w
	w.hist.note(w.Since(), o.p.name, named(c), o.id)
	switch c := c.(type) {
	case txmsg.SendHalf:
		o.next(func() any {
			h, err := w.broker.keep(o.id)
			return txmsg.Halved{Handle: h, Err: err}
		})
	case txmsg.RunLocal:
		o.local(c.Handle)
	case txmsg.AskLedger:
		o.next(func() any {
			v, err := w.ledger.judge(c.Inquiry)
			return txmsg.Asked{Verdict: v, Err: err}
		})
	case txmsg.TellEnd:
		o.next(func() any { return txmsg.Told{Err: w.broker.end(c.Handle, c.Verdict, false)} })
	case txmsg.Finish:
		o.p.sending--
		if c.Err == nil && c.Sent.Confirmed {
			o.p.step(txmsg.Delivered{ID: o.id})
		}
	}
}

// local runs the local transaction: its record first, then the caller's rows for
// some time, then the commit, which may come about after its process has died.
func (o *halfSend) local(h txmsg.Handle) {
	p, w := o.p, o.p.w
	life, wait := p.life, w.between(0, 500*time.Millisecond)
	if w.chance(0.3) {
		wait = w.between(0, 9*time.Second)
	}
	if wait > halfTimeout {
		w.probes.hit("half: transaction longer than the broker waits")
	}
	if !w.ledger.begin(o.id) {
		w.probes.hit("half: begun after it was barred")
		o.next(func() any { return txmsg.Ran{Outcome: txmsg.RolledBack, Err: errHalfBarred} })
		return
	}
	refuses := w.chance(0.2)
	w.After(wait, func() {
		dead := !p.alive || p.life != life
		if refuses || dead && w.chance(0.5) {
			w.ledger.rollBack(o.id)
			if !dead {
				o.next(func() any { return txmsg.Ran{Outcome: txmsg.RolledBack, Err: errHalfBarred} })
			}
			return
		}
		if dead {
			w.probes.hit("half: commit after the death")
		}
		if !w.ledger.commit(o.id, h) {
			if !dead {
				w.broken("a check does not end a healthy transaction", "%s could not commit", o.id)
			}
			return
		}
		if dead {
			return
		}
		if !w.calm && w.chance(0.15) {
			w.probes.hit("half: commit in doubt")
			o.next(func() any { return txmsg.Ran{Outcome: txmsg.InDoubt, Err: errHalfLost} })
			return
		}
		o.next(func() any { return txmsg.Ran{Outcome: txmsg.Committed} })
	})
}
