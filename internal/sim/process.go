package sim

import (
	"strconv"
	"time"
)

// process is what lives, dies, is stopped and goes on. When it dies, all that
// was to call it back is dropped; what it had sent is under way all the same.
type process struct {
	w       *World
	outbox  *outboxModel // of the database that it works with
	name    string
	owner   string // a new name in each life
	life    int
	alive   bool
	stopped bool // SIGSTOP: it hears what happened when it goes on
	held    bool // it is not started again
	ending  bool // asked to end cleanly
	skew    time.Duration
	last    time.Time
	waiting []func()
	cut     bool // from the store
	cutOff  bool // from the broker
	broken  bool // its connections died with the database; the next call finds out
	start   func()
	end     func()
	jolt    func() // its clock has jumped
}

func (w *World) newProcess(name string, o *outboxModel) *process {
	p := &process{w: w, name: name, outbox: o}
	w.processes = append(w.processes, p)
	return p
}

// born begins a new life.
func (p *process) born() {
	p.w.lives++
	p.life, p.alive, p.stopped, p.ending, p.broken = p.w.lives, true, false, false, false
	p.owner = p.name + "#" + strconv.Itoa(p.life)
	p.last, p.waiting = time.Time{}, nil
	p.w.hist.note(p.w.Since(), p.name, "starts", p.owner)
	p.start()
}

// now is the process's own clock. It never goes back.
func (p *process) now() time.Time {
	if t := p.w.Now().Add(p.skew); t.After(p.last) {
		p.last = t
	}
	return p.last
}

// hear runs f in the process, unless the life that asked for it has ended.
func (p *process) hear(life int, f func()) {
	switch {
	case life != p.life || !p.alive:
	case p.stopped:
		p.waiting = append(p.waiting, f)
	default:
		f()
	}
}

// later runs f in the process when d has passed.
func (p *process) later(d time.Duration, f func()) {
	life := p.life
	p.w.After(d, func() { p.hear(life, f) })
}

// alarm runs f when the process's own clock shows at, unless set says by then
// that it was set anew.
func (p *process) alarm(at time.Time, set func() bool, f func()) {
	p.later(max(at.Sub(p.w.Now().Add(p.skew)), at.Sub(p.now())), func() {
		switch {
		case !set():
		case p.now().Before(at):
			p.alarm(at, set, f) // its clock went back, or stood still
		default:
			f()
		}
	})
}

// crash kills the process; it comes again after a while.
func (p *process) crash(why string) {
	if !p.alive {
		return
	}
	p.w.hist.note(p.w.Since(), p.name, "dies", why)
	p.w.probes.hit("process died")
	p.gone()
}

// gone ends a life and begins the next one later.
func (p *process) gone() {
	p.alive, p.waiting = false, nil
	p.w.After(p.w.between(time.Millisecond, 400*time.Millisecond), func() {
		if !p.alive && !p.held {
			p.born()
		}
	})
}

// pause stops the process for d. With suspend its own clock stops too.
func (p *process) pause(d time.Duration, suspend bool) {
	if !p.alive || p.stopped {
		return
	}
	p.stopped = true
	p.w.hist.note(p.w.Since(), p.name, "is stopped", int64(d))
	life := p.life
	p.w.After(d, func() {
		if life == p.life && p.stopped {
			if suspend {
				p.skew -= d
			}
			p.resume()
		}
	})
}

func (p *process) resume() {
	if !p.alive || !p.stopped {
		return
	}
	p.stopped = false
	p.w.probes.hit("process went on after a stop")
	p.w.hist.note(p.w.Since(), p.name, "goes on")
	life, waiting := p.life, p.waiting
	p.waiting = nil
	for _, f := range waiting {
		p.hear(life, f)
	}
}

// mayDie is asked at every command: it may be the last one.
func (p *process) mayDie() {
	if p.w.Phase == phaseFaults && p.w.chance(p.w.Crash) {
		p.later(p.w.between(0, 2*p.w.CallTime), func() { p.crash("at a command") })
	}
}

// call sends a question to a database. exec runs there; answer in the process,
// with the error of exec or errDown: then nobody knows whether exec ran.
func (p *process) call(exec func() error, answer func(error)) {
	w, life := p.w, p.life
	there, back := w.between(w.CallTime/4, w.CallTime), w.between(w.CallTime/4, w.CallTime)
	lost := p.cut || p.broken || w.chance(w.LostCall)
	p.broken = false
	if lost {
		w.probes.hit("call of a store lost")
		w.After(there+back, func() { p.hear(life, func() { answer(errDown) }) })
		return
	}
	crashes := p.outbox.crashes
	if w.chance(w.LateCall) {
		w.probes.hit("call of a store done late")
		w.After(there+back, func() { p.hear(life, func() { answer(errDown) }) })
		w.After(there+back+w.between(0, w.LeaseTTL/2), func() {
			if crashes == p.outbox.crashes {
				_ = exec() // nobody hears of it
			}
		})
		return
	}
	w.After(there, func() {
		if p.life != life && w.chance(0.5) {
			return // it died before this was sent
		}
		err := errDown
		if crashes == p.outbox.crashes {
			err = exec()
		}
		if err == nil && (p.cut || w.chance(w.LostAnswer)) {
			w.probes.hit("answer of a store lost")
			err = errDown
		}
		w.After(back, func() { p.hear(life, func() { answer(err) }) })
	})
}
