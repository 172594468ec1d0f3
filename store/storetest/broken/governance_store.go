package broken

import (
	"context"

	"github.com/settlemq/settle/govern"
)

// brokenGovernance is a store of governance of which some calls are changed.
type brokenGovernance struct {
	govern.Store
	replay     func(ctx context.Context, a govern.Act, o govern.ReplayOptions, ids []int64) ([]govern.Outcome, error)
	discard    func(ctx context.Context, a govern.Act, ids []int64) ([]govern.Outcome, error)
	compensate func(ctx context.Context, a govern.Act, ids []int64) ([]govern.Outcome, error)
	letters    func(ctx context.Context, f govern.Filter) ([]govern.DeadLetter, error)
	letter     func(ctx context.Context, id int64) (govern.DeadLetter, error)
	audit      func(ctx context.Context, after int64, limit int) ([]govern.AuditEntry, error)
	trail      func(ctx context.Context, id string) ([]govern.Step, error)
	pause      func() error
	known      func() (bool, error)
}

func (b brokenGovernance) Replay(ctx context.Context, a govern.Act, o govern.ReplayOptions, ids ...int64) ([]govern.Outcome, error) {
	if b.replay == nil {
		return b.Store.Replay(ctx, a, o, ids...)
	}
	return b.replay(ctx, a, o, ids)
}

func (b brokenGovernance) Discard(ctx context.Context, a govern.Act, ids ...int64) ([]govern.Outcome, error) {
	if b.discard == nil {
		return b.Store.Discard(ctx, a, ids...)
	}
	return b.discard(ctx, a, ids)
}

func (b brokenGovernance) Compensate(ctx context.Context, a govern.Act, ids ...int64) ([]govern.Outcome, error) {
	if b.compensate == nil {
		return b.Store.Compensate(ctx, a, ids...)
	}
	return b.compensate(ctx, a, ids)
}

func (b brokenGovernance) DeadLetters(ctx context.Context, f govern.Filter) ([]govern.DeadLetter, error) {
	if b.letters == nil {
		return b.Store.DeadLetters(ctx, f)
	}
	return b.letters(ctx, f)
}

func (b brokenGovernance) DeadLetter(ctx context.Context, id int64) (govern.DeadLetter, error) {
	if b.letter == nil {
		return b.Store.DeadLetter(ctx, id)
	}
	return b.letter(ctx, id)
}

func (b brokenGovernance) Audit(ctx context.Context, after int64, limit int) ([]govern.AuditEntry, error) {
	if b.audit == nil {
		return b.Store.Audit(ctx, after, limit)
	}
	return b.audit(ctx, after, limit)
}

func (b brokenGovernance) Trail(ctx context.Context, id string) ([]govern.Step, error) {
	if b.trail == nil {
		return b.Store.Trail(ctx, id)
	}
	return b.trail(ctx, id)
}

func (b brokenGovernance) Known(ctx context.Context, kind, name string) (bool, error) {
	if b.known == nil {
		return b.Store.Known(ctx, kind, name)
	}
	return b.known()
}

func (b brokenGovernance) Pause(ctx context.Context, a govern.Act, kind, name string) error {
	if b.pause == nil {
		return b.Store.Pause(ctx, a, kind, name)
	}
	return b.pause()
}

func governance(change func(b *brokenGovernance)) func(inboxStore) inboxStore {
	return func(s inboxStore) inboxStore {
		b := brokenGovernance{Store: s.Governance}
		change(&b)
		s.Governance = b
		return s
	}
}
