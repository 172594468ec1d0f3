// Package broken shows that the rules of storetest bite: for each rule it makes
// of a sound store one that breaks it, and the rule must not let it pass.
package broken

import (
	"context"
	"database/sql"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/settlemq/settle/store/storetest"
)

type (
	inboxStore  = storetest.InboxStore[*sql.Tx]
	outboxStore = storetest.OutboxStore[*sql.Tx]
	handle      = func(context.Context, *sql.Tx, int) error
)

// RunInbox gives each rule of the inbox's suite a store that breaks it. open
// returns a sound, empty store for each.
func RunInbox(t *testing.T, open func(t testing.TB) storetest.InboxStore[*sql.Tx]) {
	stores := brokenStores()
	for _, c := range storetest.InboxCases[*sql.Tx]() {
		breaks, ok := stores[c.Name]
		delete(stores, c.Name)
		run(t, c.Name, ok, func(t testing.TB) func(testing.TB) {
			s := breaks(open(t))
			return func(t testing.TB) { c.Run(t, s) }
		})
	}
	for name := range stores {
		t.Errorf("there is no rule %q to break", name)
	}
}

// RunOutbox does the same with the rules of the outbox's suite.
func RunOutbox(t *testing.T, open func(t testing.TB) storetest.OutboxStore[*sql.Tx]) {
	RunOutboxExcept(t, nil, open)
}

// RunOutboxExcept is RunOutbox without the rules that the store under test
// can't be asked for; see storetest.RunOutboxExcept, which tells why.
func RunOutboxExcept(t *testing.T, except map[string]string, open func(t testing.TB) storetest.OutboxStore[*sql.Tx]) {
	stores := brokenOutboxes()
	for _, c := range storetest.OutboxCases[*sql.Tx]() {
		breaks, ok := stores[c.Name]
		delete(stores, c.Name)
		if except[c.Name] != "" {
			continue
		}
		run(t, c.Name, ok, func(t testing.TB) func(testing.TB) {
			s := breaks(open(t))
			return func(t testing.TB) { c.Run(t, s) }
		})
	}
	for name := range stores {
		t.Errorf("there is no rule %q to break", name)
	}
}

// run requires that a rule fails; prepare opens the store for it.
func run(t *testing.T, name string, known bool, prepare func(t testing.TB) (rule func(t testing.TB))) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		if !known {
			t.Fatal("no broken store shows that this rule bites")
		}
		if !fails(t, prepare(t)) {
			t.Fatal("a broken store passes")
		}
	})
}

// recording notes a failure instead of failing.
type recording struct {
	testing.TB
	failed atomic.Bool
}

func (r *recording) Helper()               {}
func (r *recording) Error(...any)          { r.failed.Store(true) }
func (r *recording) Errorf(string, ...any) { r.failed.Store(true) }
func (r *recording) Fatal(...any)          { r.FailNow() }
func (r *recording) Fatalf(string, ...any) { r.FailNow() }
func (r *recording) FailNow()              { r.failed.Store(true); runtime.Goexit() }

func fails(t testing.TB, rule func(t testing.TB)) bool {
	r := &recording{TB: t}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() {
			if recover() != nil {
				r.failed.Store(true)
			}
		}()
		rule(r)
	})
	wg.Wait()
	return r.failed.Load()
}
