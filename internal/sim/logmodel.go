package sim

import (
	"encoding/json"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// logModel is what the store in one relay's process remembers from call to call
// where the database is InnoDB: the ids that its polls have passed, and which
// run of the server it has loaded from. Ids are kept by the stores' own code.
type logModel struct {
	o       *outboxModel
	run     int // 0 before the first Load
	top     int64
	missing outboxlog.Missing
}

// runs counts the runs of the database's server.
func (o *outboxModel) runs() int { return o.crashes + 1 }

// fenced refuses what goes by what was read of another run of the server.
func (l *logModel) fenced() error {
	if l.o.w.InnoDB && l.run != 0 && l.run != l.o.runs() {
		l.o.w.probes.hit("another run of the server refused")
		return settle.ErrFenced
	}
	return nil
}

// hears takes note of an answer before the relay gets it. run is the server's
// that gave it.
func (l *logModel) hears(c relay.Command, in relay.Input, run int) {
	if !l.o.w.InnoDB {
		return
	}
	switch in := in.(type) {
	case relay.Loaded:
		l.run = run
		l.top = l.missing.Begin(in.State.Checkpoint.Readers)
	case relay.Polled:
		l.top = l.missing.Pass(l.top, in.Query, &in.Page)
	case relay.Committed:
		for _, id := range c.(relay.Commit).Flush.Cold {
			l.missing.Remove(id)
		}
	}
}

// question is what a token of evidence says: ids that were missing, and when.
type question struct {
	Missing []outboxlog.Run
	Since   time.Duration
}

// named is the evidence that begins a round.
func (l *logModel) named() relay.Evidence {
	token, err := json.Marshal(question{l.missing.Runs(), l.o.w.Since()})
	if err != nil {
		panic(err)
	}
	return relay.Evidence{Known: true, Token: string(token)}
}

// still are the ids of a token that no poll has returned since.
func (l *logModel) still(q question) []int64 {
	var ids []int64
	for _, r := range l.missing.Of(q.Missing) {
		for id := r[0]; id <= r[1]; id++ {
			ids = append(ids, id)
		}
	}
	return ids
}

// askOwners asks for the owners of missing ids, as the store on MySQL does: first
// which statements run, then, in another statement, which records are locked.
func (r *relayMember) askOwners(before relay.Evidence, answer func(relay.Evidence, error)) {
	l, o := r.log, r.outbox
	r.w.hist.note(r.w.Since(), r.name, "asks for owners", before.Token)
	if before.Token == "" {
		r.later(0, func() { answer(l.named(), nil) })
		return
	}
	var q question
	if err := json.Unmarshal([]byte(before.Token), &q); err != nil {
		panic(err)
	}
	e := relay.Evidence{Known: true, Token: before.Token}
	var runs, locked bool
	r.call(func() error {
		runs = o.w.OwnersKnown && o.runsSince(q.Since)
		return nil
	}, func(err error) {
		if err != nil || runs {
			answer(e, err)
			return
		}
		r.call(func() error {
			locked = o.locked(l.still(q))
			return nil
		}, func(err error) {
			if !locked {
				e.Known, e.Clear = o.w.OwnersKnown, o.w.OwnersKnown
			}
			answer(e, err)
		})
	})
}

// conflict is another transaction that is in the way of one of the store's own:
// the server ends a statement of it, and the store all of it.
func (o *outboxModel) conflict() bool {
	if o.w.InnoDB && o.w.chance(o.w.LockWaits/2) {
		o.w.probes.hit("store met a lock")
		return true
	}
	return false
}
