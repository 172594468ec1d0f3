package broken

import (
	"context"
	"time"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

// restarting is a Governance whose Restart, or Standing, is changed.
type restarting struct {
	govern.Store
	restart  func(ctx context.Context, a govern.Act, from int64) (govern.Restart, error)
	standing func(s *govern.Standing)
}

func (r restarting) Restart(ctx context.Context, a govern.Act, from int64) (govern.Restart, error) {
	if r.restart == nil {
		return r.Store.Restart(ctx, a, from)
	}
	return r.restart(ctx, a, from)
}

func (r restarting) Standing(ctx context.Context) (govern.Standing, error) {
	s, err := r.Store.Standing(ctx)
	if r.standing != nil {
		r.standing(&s)
	}
	return s, err
}

// restarted breaks what a restart is asked for.
func restarted(change func(a *govern.Act, from *int64)) breaking {
	return func(s outboxStore) outboxStore {
		sound := s.Governance
		s.Governance = restarting{Store: sound, restart: func(ctx context.Context, a govern.Act, from int64) (govern.Restart, error) {
			change(&a, &from)
			return sound.Restart(ctx, a, from)
		}}
		return s
	}
}

// cursorOnly restarts as somebody does who writes a checkpoint and no more.
func cursorOnly(s outboxStore) outboxStore {
	log := s.Standby
	s.Governance = restarting{Store: s.Governance, restart: func(ctx context.Context, _ govern.Act, from int64) (govern.Restart, error) {
		l, err := log.Lead(ctx, "by hand", 0, time.Minute)
		if err != nil {
			return govern.Restart{}, err
		}
		f := relay.Flush{Checkpoint: relay.Checkpoint{Number: 100, Readers: []relay.Reader{{Cursor: from - 1}}}}
		if err := log.Commit(ctx, l, f); err != nil {
			return govern.Restart{}, err
		}
		return govern.Restart{Epoch: l.Epoch, From: from}, log.Resign(ctx, l)
	}}
	return s
}

// unaware sweeps and does not look which table it is.
type unaware struct{ relay.Store }

func (u unaware) Sweep(ctx context.Context, l relay.Lease, limit int) (int, error) {
	n, err := u.Store.Sweep(ctx, l, limit)
	if n == 0 {
		err = nil
	}
	return n, err
}

func brokenRestarts() map[string]breaking {
	return map[string]breaking{
		"a sweep of a table that was made anew says so": func(s outboxStore) outboxStore {
			s.Store = unaware{s.Store}
			return s
		},
		"where a relay stands is told beside the table as it is": func(s outboxStore) outboxStore {
			s.Governance = restarting{Store: s.Governance, standing: func(s *govern.Standing) { s.OtherLife = "" }}
			return s
		},
		"a restart is refused while a relay leads, without who and why, and for an id that is not given":     restarted(func(_ *govern.Act, from *int64) { *from = min(*from, 3) }),
		"a restart sends what is there from an id on, and counts what is before as sent":                     restarted(func(_ *govern.Act, from *int64) { *from++ }),
		"a restart from the end sends what is appended from then on":                                         restarted(func(_ *govern.Act, from *int64) { *from = 1 }),
		"what waited beside the log is kept at a restart if its event is there, and is a dead letter if not": cursorOnly,
		"after a restart nothing of another life is taken for published":                                     cursorOnly,
	}
}
