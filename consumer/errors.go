package consumer

import (
	"errors"
	"fmt"
)

var (
	// ErrStopping answers deliveries that were not applied when the consumer
	// was asked to stop.
	ErrStopping = errors.New("consumer is stopping")
	// ErrHandlerTimeout is the error of a handler that ran longer than its
	// timeout. It is an attempt, and it counts for the circuit breaker.
	ErrHandlerTimeout = errors.New("handler exceeded its timeout")
)

// PanicError is the error of a handler that panicked.
type PanicError struct {
	Value any
	Stack string
}

func (p *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", p.Value) }

// VersionError is the error of an event whose version the handler can't be
// given: no upcaster leads from it to the version the handler takes.
type VersionError struct {
	Version, MaxVersion int
	Err                 error
}

func (v *VersionError) Error() string {
	if v.Err != nil {
		return fmt.Sprintf("upcast event from version %d to %d: %v", v.Version, v.MaxVersion, v.Err)
	}
	return fmt.Sprintf("event has version %d, the handler takes up to %d", v.Version, v.MaxVersion)
}

func (v *VersionError) Unwrap() error { return v.Err }
