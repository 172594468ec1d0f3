package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/storetest"
)

type (
	inboxStore = storetest.InboxStore[*sql.Tx]
	handle     = func(context.Context, *sql.Tx, int) error
)

// TestEveryRuleOfTheInboxSuiteFailsABrokenStore gives each rule a store that
// breaks it: a rule that lets it pass proves nothing.
func TestEveryRuleOfTheInboxSuiteFailsABrokenStore(t *testing.T) {
	broken := brokenStores()
	for _, c := range storetest.InboxCases[*sql.Tx]() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			breaks, ok := broken[c.Name]
			if !ok {
				t.Fatal("no broken store shows that this rule bites")
			}
			if !fails(t, c, breaks(openInbox(t))) {
				t.Fatal("a broken store passes")
			}
		})
	}
	for name := range broken {
		found := false
		for _, c := range storetest.InboxCases[*sql.Tx]() {
			found = found || c.Name == name
		}
		if !found {
			t.Errorf("there is no rule %q to break", name)
		}
	}
}

func fails(t testing.TB, c storetest.InboxCase[*sql.Tx], s inboxStore) bool {
	r := &recording{TB: t}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() {
			if recover() != nil {
				r.failed.Store(true)
			}
		}()
		c.Run(r, s)
	})
	wg.Wait()
	return r.failed.Load()
}

// brokenInbox is an inbox of which some calls are changed.
type brokenInbox struct {
	settle.Inbox[*sql.Tx]
	apply    func(ctx context.Context, w settle.Work, h handle) ([]settle.Result, error)
	due      func(ctx context.Context, group string, limit int) (settle.Due, error)
	claim    func(ctx context.Context, r settle.ClaimRequest) ([]settle.Claim, error)
	forget   func(ctx context.Context, group string, before time.Time, limit int) (int, error)
	raise    func() error
	controls func(ctx context.Context) (settle.Controls, error)
}

func (b brokenInbox) Apply(ctx context.Context, w settle.Work, h func(context.Context, *sql.Tx, int) error) ([]settle.Result, error) {
	if b.apply == nil {
		return b.Inbox.Apply(ctx, w, h)
	}
	return b.apply(ctx, w, h)
}

func (b brokenInbox) Due(ctx context.Context, group string, limit int) (settle.Due, error) {
	if b.due == nil {
		return b.Inbox.Due(ctx, group, limit)
	}
	return b.due(ctx, group, limit)
}

func (b brokenInbox) Claim(ctx context.Context, r settle.ClaimRequest) ([]settle.Claim, error) {
	if b.claim == nil {
		return b.Inbox.Claim(ctx, r)
	}
	return b.claim(ctx, r)
}

func (b brokenInbox) Forget(ctx context.Context, group string, before time.Time, limit int) (int, error) {
	if b.forget == nil {
		return b.Inbox.Forget(ctx, group, before, limit)
	}
	return b.forget(ctx, group, before, limit)
}

func (b brokenInbox) RaiseFloor(ctx context.Context, group string, p settle.Partition, to settle.Floor) error {
	if b.raise == nil {
		return b.Inbox.RaiseFloor(ctx, group, p, to)
	}
	return b.raise()
}

func (b brokenInbox) Controls(ctx context.Context) (settle.Controls, error) {
	if b.controls == nil {
		return b.Inbox.Controls(ctx)
	}
	return b.controls(ctx)
}

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

// work returns a breaker that changes what is asked of Apply.
func work(change func(w *settle.Work)) func(inboxStore) inboxStore {
	return func(s inboxStore) inboxStore {
		next := s.Inbox
		s.Inbox = brokenInbox{Inbox: next, apply: func(ctx context.Context, w settle.Work, h handle) ([]settle.Result, error) {
			change(&w)
			return next.Apply(ctx, w, h)
		}}
		return s
	}
}

// items returns a breaker that changes each item; the event is a copy.
func items(change func(it *settle.Item)) func(inboxStore) inboxStore {
	return work(func(w *settle.Work) {
		changed := make([]settle.Item, len(w.Items))
		for i, it := range w.Items {
			if it.Record.Event != nil {
				e := *it.Record.Event
				it.Record.Event = &e
			}
			change(&it)
			changed[i] = it
		}
		w.Items = changed
	})
}

// handling returns a breaker that changes what the handler answers.
func handling(change func(h func() error) error) func(inboxStore) inboxStore {
	return func(s inboxStore) inboxStore {
		next := s.Inbox
		s.Inbox = brokenInbox{Inbox: next, apply: func(ctx context.Context, w settle.Work, h handle) ([]settle.Result, error) {
			return next.Apply(ctx, w, func(ctx context.Context, tx *sql.Tx, i int) error {
				return change(func() error { return h(ctx, tx, i) })
			})
		}}
		return s
	}
}

// renamed returns a breaker under which an event has another id each time.
func renamed(which func(it *settle.Item) bool) func(inboxStore) inboxStore {
	var n atomic.Int64
	return items(func(it *settle.Item) {
		if it.Record.Event != nil && which(it) {
			it.Record.Event.ID += fmt.Sprint("#", n.Add(1))
			it.RetryID = 0
		}
	})
}

func inbox(change func(b *brokenInbox)) func(inboxStore) inboxStore {
	return func(s inboxStore) inboxStore {
		b := brokenInbox{Inbox: s.Inbox}
		change(&b)
		s.Inbox = b
		return s
	}
}

func governance(change func(b *brokenGovernance)) func(inboxStore) inboxStore {
	return func(s inboxStore) inboxStore {
		b := brokenGovernance{Store: s.Governance}
		change(&b)
		s.Governance = b
		return s
	}
}

var errNotWanted = errors.New("not wanted")
