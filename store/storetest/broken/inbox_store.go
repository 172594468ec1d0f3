package broken

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/settlemq/settle"
)

// brokenInbox is an inbox of which some calls are changed.
type brokenInbox struct {
	settle.Inbox[*sql.Tx]
	apply    func(ctx context.Context, w settle.Work, h handle) ([]settle.Result, error)
	due      func(ctx context.Context, group string, limit int) (settle.Due, error)
	claim    func(ctx context.Context, r settle.ClaimRequest) ([]settle.Claim, error)
	forget   func(ctx context.Context, group string, before time.Time, limit int) (int, error)
	raise    func() error
	attend   func(ctx context.Context, r settle.Attendance) (settle.Departed, error)
	release  func() error
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

func (b brokenInbox) Attend(ctx context.Context, r settle.Attendance) (settle.Departed, error) {
	if b.attend == nil {
		return b.Inbox.Attend(ctx, r)
	}
	return b.attend(ctx, r)
}

func (b brokenInbox) Release(ctx context.Context, group, owner string) error {
	if b.release == nil {
		return b.Inbox.Release(ctx, group, owner)
	}
	return b.release()
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

var errNotWanted = errors.New("not wanted")
