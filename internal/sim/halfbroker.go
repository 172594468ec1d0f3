package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/settlemq/settle/txmsg"
)

// Times of the broker: how old a half message is when it is first asked for, how
// often it is looked at, and how often in all.
const (
	halfTimeout = 3 * time.Second
	halfEvery   = 2 * time.Second
	halfChecks  = 8
)

// halfBroker keeps half messages back and asks for them.
type halfBroker struct {
	w         *halfWorld
	halves    map[txmsg.Handle]*halfMessage
	order     []txmsg.Handle
	delivered map[string]int
	dropped   map[string]bool
	down      bool // it answers nobody
	closed    bool // it takes nothing for the topic
	refusing  bool // it refuses each message
}

type halfMessage struct {
	id          string
	at          time.Duration
	ended, gone bool
	asked       int
}

// plan schedules what the broker does, and what breaks it.
func (b *halfBroker) plan() {
	b.delivered, b.dropped = map[string]int{}, map[string]bool{}
	var look func()
	look = func() {
		b.ask()
		b.w.After(halfEvery, look)
	}
	b.w.After(halfEvery, look)
	for range b.w.from(0, 2) {
		from, lasts := b.w.between(0, halfFaultTime), b.w.between(0, 10*time.Second)
		what := &b.down
		switch {
		case b.w.chance(0.3):
			what = &b.refusing
		case b.w.chance(0.3):
			what = &b.closed
		}
		b.w.After(from, func() { *what = true })
		b.w.After(min(from+lasts, halfFaultTime), func() { *what = false })
	}
	if b.w.chance(0.5) {
		b.w.After(b.w.between(0, halfFaultTime), func() { b.insert("elsewhere.1") })
	}
}

func (b *halfBroker) away() error {
	if b.down {
		b.w.probes.hit("half: broker away")
		return errHalfAway
	}
	return nil
}

func (b *halfBroker) refusal() error {
	switch {
	case b.closed:
		b.w.probes.hit("half: topic refused")
		return errHalfTopic
	case b.refusing:
		return errHalfRefused
	}
	return nil
}

func (b *halfBroker) insert(id string) txmsg.Handle {
	h := txmsg.Handle(fmt.Sprint(len(b.order) + 1))
	b.halves[h] = &halfMessage{id: id, at: b.w.Since()}
	b.order = append(b.order, h)
	return h
}

// keep takes a half message. Its answer may be lost.
func (b *halfBroker) keep(id string) (txmsg.Handle, error) {
	if err := b.away(); err != nil {
		return "", err
	}
	if err := b.refusal(); err != nil {
		return "", err
	}
	h := b.insert(id)
	if !b.w.calm && b.w.chance(0.05) {
		return "", errHalfAway
	}
	return h, nil
}

// ask asks for what is old enough, each of a process that it knows, early or late;
// what was looked at often enough is given up.
func (b *halfBroker) ask() {
	for _, handle := range b.order {
		h := b.halves[handle]
		early := !b.w.calm && b.w.chance(0.1)
		if h.ended || h.gone || b.down || b.w.Since()-h.at < halfTimeout && !early {
			continue
		}
		if h.asked++; h.asked > halfChecks {
			h.gone = true
			b.w.probes.hit("half: given up by the broker")
			continue
		}
		late := time.Millisecond
		if b.w.chance(0.2) {
			late = b.w.between(0, 8*time.Second)
		}
		c := txmsg.Check{ID: h.id, Handle: handle, EventID: "e" + h.id, Times: h.asked}
		b.w.After(late, func() { b.put(c) })
	}
}

// put asks one of the processes.
func (b *halfBroker) put(c txmsg.Check) {
	first := b.w.IntN(len(b.w.processes))
	for i := range b.w.processes {
		p := b.w.processes[(first+i)%len(b.w.processes)]
		if p.alive && p.known && p.hearing {
			if i > 0 {
				b.w.probes.hit("half: checked by another process")
			}
			p.step(txmsg.Checked{Check: c})
			return
		}
	}
}

// answered takes an answer to a check.
func (b *halfBroker) answered(p *halfProcess, c txmsg.Check, v txmsg.Verdict) error {
	b.w.hist.note(b.w.Since(), p.name, "answers "+v.String(), c.ID)
	if !strings.HasPrefix(c.ID, "here.") {
		b.w.probes.hit("half: foreign check")
		if v != txmsg.Unknown {
			b.w.broken("a foreign half message is left alone", "%s was answered with %s", c.ID, v)
		}
		return nil
	}
	b.w.probes.hit("half: check answered " + v.String())
	return b.end(c.Handle, v, true)
}

// end delivers or drops. It, or its answer, may be lost.
func (b *halfBroker) end(handle txmsg.Handle, v txmsg.Verdict, asked bool) error {
	if err := b.away(); err != nil {
		return err
	}
	h := b.halves[handle]
	r := b.w.ledger.rows[h.id]
	switch {
	case v == txmsg.Unknown:
		return nil
	case v == txmsg.Commit && (r == nil || !r.committed):
		b.w.broken("no COMMIT without the record", "%s is committed at the broker (asked: %t)", h.id, asked)
	case v == txmsg.Rollback && r != nil && r.committed:
		b.w.broken("what is committed is not dropped", "%s is dropped at the broker (asked: %t)", h.id, asked)
	case !b.w.calm && b.w.chance(0.2):
		b.w.probes.hit("half: end lost")
		return errHalfAway
	case h.gone:
		return txmsg.ErrGone
	case v == txmsg.Commit && b.refusal() != nil:
		return b.refusal()
	}
	h.ended = true
	if v == txmsg.Rollback {
		b.dropped[h.id] = true
	} else if b.delivered[h.id]++; b.delivered[h.id] == 2 {
		b.w.probes.hit("half: delivered twice")
	}
	if !b.w.calm && b.w.chance(0.1) {
		b.w.probes.hit("half: answer to an end lost")
		return errHalfAway
	}
	return nil
}

// droppedBy reports whether a roll-back was told of a transaction.
func (b *halfBroker) droppedBy(id string) bool { return b.dropped[id] }
