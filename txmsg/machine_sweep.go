package txmsg

import (
	"errors"
	"time"

	"github.com/settlemq/settle"
)

// hold is how long claimed records are this process's: longer than all of them
// can take.
func (m *Machine) hold() time.Duration {
	return m.cfg.SweepAfter + lookRows/sweepAtOnce*(2*m.cfg.EndTimeout+m.cfg.HalfTimeout)
}

func (m *Machine) found(now time.Time, in Found) {
	m.looking = false
	m.tell(workLook, in.Err)
	m.open = in.Open
	m.lookAt = now.Add(m.cfg.SweepEvery)
	if len(in.Open) == lookRows { // there may be more
		m.lookAt = now
	}
}

// swept goes on with one record.
func (m *Machine) swept(now time.Time, in Input) []Command {
	switch in := in.(type) {
	case EndedAgain:
		return m.endedAgain(now, in)
	case SentAnew:
		if in.Err != nil {
			return m.refused(in.Open, in.Err)
		}
		m.stats.Anew++
		return []Command{MarkOpen{in.Open, Mark{ID: in.Open.ID, Result: ResultMoved, Tries: in.Open.Tries, Handle: in.Handle}}}
	case Marked:
		return m.marked(in)
	}
	return nil
}

// endedAgain decides what the broker's answer to a commit means.
func (m *Machine) endedAgain(now time.Time, in EndedAgain) []Command {
	switch {
	case in.Err == nil:
		m.sweeping--
		m.stats.Swept++
		m.tell(workSweep, nil)
		m.confirm(now, in.Open.ID)
		return nil
	case errors.Is(in.Err, ErrGone):
		// The broker has given it up, or its log has gone on: the record has the
		// event, and the commit that has been told is that of the record.
		return []Command{SendAnew{in.Open}}
	}
	return m.refused(in.Open, in.Err)
}

// refused puts a record off, or gives it up.
func (m *Machine) refused(o Open, err error) []Command {
	m.tell(workSweep, err)
	mark := Mark{ID: o.ID, Result: ResultAgain, Tries: o.Tries, Cause: err.Error()}
	if settle.ScopeOf(err) != settle.ScopeRecord {
		// Who answers nobody, or takes nothing for a topic, says nothing of this record.
		mark.Wait = m.cfg.SweepAfter
		return []Command{MarkOpen{o, mark}}
	}
	mark.Tries++
	wait, again := m.cfg.Retry.Next(o.Event.ID, mark.Tries, err)
	if mark.Wait = wait; !again || settle.IsPermanent(err) {
		mark.Result, mark.Class = ResultGivenUp, settle.ClassPublish
	}
	return []Command{MarkOpen{o, mark}}
}

func (m *Machine) marked(in Marked) []Command {
	m.tell(workMark, in.Err)
	if in.Err == nil && in.Mark.Result == ResultMoved {
		in.Open.Handle = in.Mark.Handle
		return []Command{EndAgain{in.Open}}
	}
	m.sweeping--
	if in.Err == nil && in.Mark.Result == ResultGivenUp {
		m.stats.GivenUp++
	}
	return nil
}
