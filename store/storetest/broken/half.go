package broken

import (
	"context"
	"testing"
	"time"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/txmsg"
)

// RunHalf gives each rule of the suite of half messages a store that breaks it.
// open returns a sound, empty store for each.
func RunHalf(t *testing.T, open func(t testing.TB) storetest.HalfStore) {
	stores := brokenHalves()
	for _, c := range storetest.HalfCases() {
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

type halfStore = storetest.HalfStore

// brokenLedger is a sound ledger with one fault.
type brokenLedger struct {
	txmsg.Ledger
	guess    bool // answers without asking
	unbarred bool // bars another transaction than it was asked for
	claimed  bool // never claims
	unsure   bool // does not confirm
	bare     bool // loses headers
	mute     bool // does not note
	eager    bool // purges at once
	content  bool // says that there is no more to purge
	nameless int
	lasting  bool // never gives up
}

func (b *brokenLedger) Judge(ctx context.Context, q txmsg.Inquiry) (txmsg.Verdict, error) {
	switch {
	case b.guess:
		return txmsg.Rollback, nil
	case b.unbarred:
		q.ID += "'"
	}
	return b.Ledger.Judge(ctx, q)
}

func (b *brokenLedger) Due(ctx context.Context, limit int, hold time.Duration) ([]txmsg.Open, error) {
	if b.claimed {
		hold = 0
	}
	open, err := b.Ledger.Due(ctx, limit, hold)
	if b.bare {
		for i := range open {
			open[i].Event.Headers = nil
		}
	}
	return open, err
}

func (b *brokenLedger) Confirm(ctx context.Context, ids []string) error {
	if b.unsure {
		return nil
	}
	return b.Ledger.Confirm(ctx, ids)
}

func (b *brokenLedger) Mark(ctx context.Context, m txmsg.Mark) error {
	if b.lasting && m.Result == txmsg.ResultGivenUp {
		m.Result = txmsg.ResultAgain
	}
	return b.Ledger.Mark(ctx, m)
}

func (b *brokenLedger) Note(ctx context.Context, a []txmsg.Answered) error {
	if b.mute {
		return nil
	}
	return b.Ledger.Note(ctx, a)
}

func (b *brokenLedger) Purge(ctx context.Context, keep time.Duration, limit int) (int, error) {
	if b.eager {
		keep = -time.Hour
	}
	n, err := b.Ledger.Purge(ctx, keep, limit)
	if b.content {
		n = min(n, 1)
	}
	return n, err
}

func (b *brokenLedger) Scope(ctx context.Context) (string, error) {
	if b.nameless > 0 {
		b.nameless++
		return string(rune('a' + b.nameless)), nil
	}
	return b.Ledger.Scope(ctx)
}

// forgetful forgets what a person does.
type forgetful struct{ govern.Store }

func (forgetful) Discard(_ context.Context, _ govern.Act, ids ...int64) ([]govern.Outcome, error) {
	out := make([]govern.Outcome, 0, len(ids))
	for _, id := range ids {
		out = append(out, govern.Outcome{ID: id, Result: "done"})
	}
	return out, nil
}

func (forgetful) Trail(context.Context, string) ([]govern.Step, error) { return nil, nil }

func brokenHalves() map[string]func(halfStore) halfStore {
	ledgers := func(b brokenLedger) func(halfStore) halfStore {
		return func(s halfStore) halfStore {
			b.Ledger = s.Ledger
			s.Ledger = &b
			return s
		}
	}
	governed := func(s halfStore) halfStore {
		s.Governance = forgetful{s.Governance}
		return s
	}
	return map[string]func(halfStore) halfStore{
		"a local transaction keeps its record and its rows, or neither": func(s halfStore) halfStore {
			sound := s.Transact
			s.Transact = func(ctx context.Context, r txmsg.Record, f func(context.Context, func(string) error) error) (txmsg.Outcome, error) {
				var no error
				o, err := sound(ctx, r, func(ctx context.Context, write func(string) error) error {
					no = f(ctx, write)
					return nil
				})
				if no != nil {
					return txmsg.RolledBack, no
				}
				return o, err
			}
			return s
		},
		"a check finds the record, and each is kept with its answer":                                  ledgers(brokenLedger{guess: true}),
		"a check that finds no record bars the transaction for ever":                                  ledgers(brokenLedger{unbarred: true}),
		"a check during the transaction does not know, and the transaction goes on":                   ledgers(brokenLedger{guess: true}),
		"a record is due to be swept up after its time, and claimed by one":                           ledgers(brokenLedger{claimed: true}),
		"what is confirmed is not due, and stays so":                                                  ledgers(brokenLedger{unsure: true}),
		"a record goes back whole: event, handle and tries":                                           ledgers(brokenLedger{bare: true}),
		"what is given up is a dead letter, which a replay makes due again and a confirmation closes": ledgers(brokenLedger{unsure: true}),
		"what is given up again is the same dead letter, open again":                                  ledgers(brokenLedger{lasting: true}),
		"what a person discards is not delivered any more":                                            governed,
		"what has ended is deleted after its time, and what has not stays":                            ledgers(brokenLedger{eager: true}),
		"answers are deleted too, and it is told when there are more of them":                         ledgers(brokenLedger{content: true}),
		"a trail tells of records, checks and dead letters":                                           governed,
		"an answer that no row decides is kept":                                                       ledgers(brokenLedger{mute: true}),
		"a database has one name":                                                                     ledgers(brokenLedger{nameless: 1}),
	}
}
