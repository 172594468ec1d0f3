package concurrent

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/relay"
)

// CopiesInOrder checks that the first copies of each key arrive in order and
// complete while many write, and that missing ids are given up.
func CopiesInOrder[Tx any](t *testing.T, o Outbox[Tx]) {
	gaps := func() (n int) {
		if err := o.Reader.QueryRowContext(t.Context(), `SELECT count(*) FROM t_outbox_gap`).Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	wrong, sent := Carry(t, o.Logs, time.Minute, func() bool { return gaps() > 0 }, func() map[string]int64 {
		return Write(t, o, Load{Writers: 16, Keys: 50, During: 4 * time.Second})
	})
	for _, w := range wrong {
		t.Error(w)
	}
	if t.Logf("%d events", sent); sent < 100 {
		t.Error("too few to say anything")
	}
	if gaps() == 0 {
		t.Error("no missing id was recorded as cold, with three in ten transactions rolled back")
	}
}

// forgetful reads missing ids again with every few polls only, or never.
type forgetful struct {
	relay.Store
	every, polls int
}

func (f *forgetful) Poll(ctx context.Context, q relay.PollQuery) (relay.Page, error) {
	if f.polls++; f.every == 0 || f.polls%f.every != 0 {
		q.Holes = nil
	}
	return f.Store.Poll(ctx, q)
}

// Misordered shows that CopiesInOrder bites: it finds out relays that read
// missing ids late or never, and writers that append before they lock. open
// returns an empty outbox each time.
func Misordered[Tx any](t *testing.T, open func(t testing.TB) Outbox[Tx]) {
	for name, c := range map[string]struct {
		every int
		late  bool
	}{
		"never":     {0, false},
		"sometimes": {20, false},
		"late":      {1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// On a busy machine one round may have seen too little.
			for range 3 {
				o := open(t)
				wrong, _ := Carry(t, []relay.Store{&forgetful{Store: o.Logs[0], every: c.every}}, time.Second, nil, func() map[string]int64 {
					return Write(t, o, Load{Writers: 16, Keys: 8, During: 2 * time.Second, Late: c.late})
				})
				if strings.Contains(strings.Join(wrong, "\n"), "behind") {
					return
				}
			}
			t.Error("nothing of this kind is found")
		})
	}
}
