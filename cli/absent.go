package cli

import (
	"context"

	"github.com/settlemq/settle/govern"
)

// absent stands for the database of a service that could not be opened: every
// call says why. A trail names it and tells what the others know.
type absent struct{ err error }

var _ govern.Store = absent{}

func (a absent) DeadLetters(context.Context, govern.Filter) ([]govern.DeadLetter, error) {
	return nil, a.err
}

func (a absent) DeadLetter(context.Context, int64) (govern.DeadLetter, error) {
	return govern.DeadLetter{}, a.err
}

func (a absent) Replay(context.Context, govern.Act, govern.ReplayOptions, ...int64) ([]govern.Outcome, error) {
	return nil, a.err
}

func (a absent) Compensate(context.Context, govern.Act, ...int64) ([]govern.Outcome, error) {
	return nil, a.err
}

func (a absent) Discard(context.Context, govern.Act, ...int64) ([]govern.Outcome, error) {
	return nil, a.err
}

func (a absent) Trail(context.Context, string) ([]govern.Step, error) { return nil, a.err }

func (a absent) Audit(context.Context, int64, int) ([]govern.AuditEntry, error) { return nil, a.err }

func (a absent) Pause(context.Context, govern.Act, string, string) error { return a.err }

func (a absent) Resume(context.Context, govern.Act, string, string) error { return a.err }

func (a absent) Known(context.Context, string, string) (bool, error) { return false, a.err }

func (a absent) Resend(context.Context, govern.Act, ...string) ([]govern.Resent, error) {
	return nil, a.err
}

func (a absent) Standing(context.Context) (govern.Standing, error) {
	return govern.Standing{}, a.err
}

func (a absent) Restart(context.Context, govern.Act, int64) (govern.Restart, error) {
	return govern.Restart{}, a.err
}

func (a absent) Skip(context.Context, govern.Act, string) error { return a.err }
