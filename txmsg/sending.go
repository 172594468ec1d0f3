package txmsg

import (
	"errors"
	"fmt"

	"github.com/settlemq/settle"
)

// Sent is what is known of an event whose local transaction has committed.
type Sent struct {
	// ID is that of the transaction.
	ID string
	// Confirmed is whether the broker has said that it delivers the event. If not,
	// Cause says why, and the check-back or the sweep sees to it.
	Confirmed bool
	Cause     error
}

// Sending decides how one event is sent. It has no clock and does no I/O: each
// Step takes what has happened, nil at first, and returns what to do, until that
// is Finish.
type Sending struct {
	id      string
	event   *settle.Event
	handle  Handle
	verdict Verdict
	sent    Sent
	err     error
	outcome Outcome
}

// NewSending returns the machine of one event under a fresh transaction id.
func NewSending(id string, event *settle.Event) *Sending { return &Sending{id: id, event: event} }

// What a Sending wants done.
type (
	// SendHalf hands over the half message: answered by Halved.
	SendHalf struct{}
	// RunLocal carries out the local transaction with its record: Ran.
	RunLocal struct{ Handle Handle }
	// AskLedger asks what the database has, and bars what it has not: Judged.
	AskLedger struct{ Inquiry Inquiry }
	// TellEnd tells the broker: Told.
	TellEnd struct {
		Handle  Handle
		Verdict Verdict
	}
	// Finish: nothing is left to do.
	Finish struct {
		Sent    Sent
		Outcome Outcome
		Err     error
	}
)

// What has happened to a Sending.
type (
	// Halved is the broker's answer to the half message.
	Halved struct {
		Handle Handle
		Err    error
	}
	// Ran is how the local transaction ended.
	Ran struct {
		Outcome Outcome
		Err     error
	}
	// Asked is the database's answer.
	Asked struct {
		Verdict Verdict
		Err     error
	}
	// Told is the broker's answer to the end.
	Told struct{ Err error }
)

// Step returns SendHalf, RunLocal, AskLedger, TellEnd or Finish.
func (s *Sending) Step(in any) any {
	switch in := in.(type) {
	case Halved:
		if in.Err != nil {
			return s.finish(RolledBack, ErrNotSent, in.Err)
		}
		s.handle = in.Handle
		return RunLocal{in.Handle}
	case Ran:
		return s.ran(in)
	case Asked:
		return s.asked(in)
	case Told:
		return s.told(in)
	}
	return SendHalf{}
}

func (s *Sending) ran(in Ran) any {
	s.outcome = in.Outcome
	if in.Outcome == Committed {
		s.verdict = Commit
		return TellEnd{s.handle, Commit}
	}
	s.err = in.Err
	if s.err == nil {
		s.err = errors.New("the database gave no reason")
	}
	// The row decides, whatever the driver has made of the end.
	return AskLedger{Inquiry{ID: s.id, EventID: s.event.ID, EventType: s.event.Type, Key: s.event.AggregateID, Topic: s.event.Topic, Cause: s.err.Error()}}
}

func (s *Sending) asked(in Asked) any {
	s.verdict = in.Verdict
	if in.Err != nil || in.Verdict == Unknown {
		s.verdict = Unknown
		if s.outcome == InDoubt {
			return s.finish(InDoubt, ErrInDoubt, errors.Join(s.err, in.Err))
		}
		// It is certain that nothing was committed, and no zombie of this id can
		// come: it was this process's.
		s.verdict = Rollback
	}
	return TellEnd{s.handle, s.verdict}
}

func (s *Sending) told(in Told) any {
	if s.verdict == Rollback {
		return s.finish(RolledBack, ErrRolledBack, s.err)
	}
	s.sent = Sent{ID: s.id, Confirmed: in.Err == nil, Cause: in.Err}
	return Finish{Sent: s.sent, Outcome: Committed}
}

func (s *Sending) finish(o Outcome, what, why error) Finish {
	return Finish{Outcome: o, Err: fmt.Errorf("send event %s of type %q as transaction %s: %w: %w", s.event.ID, s.event.Type, s.id, what, why)}
}
