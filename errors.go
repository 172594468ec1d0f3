package settle

import (
	"errors"
	"fmt"
)

var (
	// ErrFenced means that another owner has taken over: whatever was being
	// written was refused and the caller must forget all and load again.
	ErrFenced = errors.New("fenced: another owner holds the lease")
	// ErrClosed is returned by a publisher or subscriber after Close.
	ErrClosed = errors.New("closed")
	// ErrDuplicateEvent is returned by Append for an event id that is already
	// in the outbox. The caller's transaction can still be rolled back or,
	// where the database allows it, go on.
	ErrDuplicateEvent = errors.New("event id is already in the outbox")
	// ErrNewGeneration means that a position belongs to another life of the
	// table or stream: it was restored, truncated or made anew. Nothing is
	// resent and nothing is skipped until a person decides.
	ErrNewGeneration = errors.New("the recorded position belongs to another life of this table or stream")
)

// InvalidEventError says which field of an event can't be stored, and why.
type InvalidEventError struct {
	EventID, EventType, Field, Reason string
}

func (e *InvalidEventError) Error() string {
	return fmt.Sprintf("event %s of type %q: %s %s", e.EventID, e.EventType, e.Field, e.Reason)
}

type permanentError struct{ err error }

func (p *permanentError) Error() string { return p.err.Error() }
func (p *permanentError) Unwrap() error { return p.err }

// Permanent marks an error that no retry will cure. A handler that returns it
// sends the event to the dead letters at once. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err, or an error it wraps, was marked by Permanent.
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// RejectError is a business refusal: the event was understood, the business
// said no, the refusal is recorded and the event is done.
type RejectError struct{ Reason string }

func (r *RejectError) Error() string { return "rejected: " + r.Reason }

// Reject returns an error with which a handler ends an event as REJECTED. The
// handler's writes are kept: they are how the business says no. To keep none,
// write none.
func Reject(reason string) error { return &RejectError{Reason: reason} }

// Rejected returns the RejectError in err's chain, if there is one.
func Rejected(err error) (*RejectError, bool) {
	var r *RejectError
	ok := errors.As(err, &r)
	return r, ok
}

type pausedError struct{ err error }

func (p *pausedError) Error() string { return p.err.Error() }
func (p *pausedError) Unwrap() error { return p.err }

// Unavailable marks an error as the fault of something the handler depends
// on, not of the event: delivery pauses and no attempt is counted. An open
// circuit breaker and a store that does not answer are of this kind.
func Unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &pausedError{err}
}

// IsUnavailable reports whether err, or an error it wraps, was marked by Unavailable.
func IsUnavailable(err error) bool {
	var p *pausedError
	return errors.As(err, &p)
}

// Scope says how much of a destination an error of Publish speaks of.
type Scope int

const (
	// ScopeBroker: the broker did not answer, or answered that it can't take
	// anything now. The outcome is unknown. Back-pressure; no attempt counted.
	ScopeBroker Scope = iota
	// ScopeTopic: this topic can't take anything (missing, no permission,
	// full). The destination's circuit opens; no attempt counted.
	ScopeTopic
	// ScopeRecord: this event was refused (too large, unroutable, refused by
	// policy). Its key is parked and the attempt counts.
	ScopeRecord
)

func (s Scope) String() string {
	switch s {
	case ScopeBroker:
		return "broker"
	case ScopeTopic:
		return "topic"
	}
	return "record"
}

// PublishError classifies why an event was not acknowledged. Errors of other
// types count as ScopeBroker: unknown, to be sent again under the same id.
type PublishError struct {
	Scope Scope
	Err   error
}

func (p *PublishError) Error() string { return p.Scope.String() + ": " + p.Err.Error() }
func (p *PublishError) Unwrap() error { return p.Err }

// ScopeOf returns the scope of a Publish error.
func ScopeOf(err error) Scope {
	var p *PublishError
	if errors.As(err, &p) {
		return p.Scope
	}
	return ScopeBroker
}
