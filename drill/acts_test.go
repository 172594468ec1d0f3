package drill_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settlemq/settle/drill"
)

func TestActsAreCarriedOutInTheirTimeAndAskedForUntilTheyAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		var seen []string
		f := &drill.Feed{
			Place: func(_ context.Context, r drill.Request) (string, error) { return "o-" + r.Key, nil },
			Act: func(_ context.Context, kind, orderID string) (bool, error) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, fmt.Sprintf("%s %s at %s", kind, orderID, time.Since(began)))
				if len(seen) == 1 {
					return false, errors.New("connection reset")
				}
				return kind == drill.ActPay, nil
			},
		}
		all := requests(2)
		all[1].Acts = []drill.Act{{Kind: drill.ActCancel, After: time.Minute}, {Kind: drill.ActPay, After: time.Second}}
		if err := f.Run(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		if want := []string{"pay o-k1 at 1s", "pay o-k1 at 1.02s", "cancel o-k1 at 1m0s"}; !slices.Equal(seen, want) {
			t.Errorf("acts %q; want %q", seen, want)
		}
		if want := []drill.ActAnswer{{Key: "k1", Kind: "pay", Accepted: true}, {Key: "k1", Kind: "cancel"}}; !slices.Equal(f.Acts(), want) {
			t.Errorf("answers %+v; want %+v", f.Acts(), want)
		}
	})
}

func TestActsOfOneTimeAreSentAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := make(chan struct{}, 2)
		f := &drill.Feed{
			Place: func(_ context.Context, r drill.Request) (string, error) { return r.Key, nil },
			Act: func(ctx context.Context, _, _ string) (bool, error) {
				both <- struct{}{}
				for len(both) < 2 { // neither is answered before the other is asked for
					time.Sleep(time.Millisecond)
				}
				return true, nil
			},
		}
		all := requests(1)
		all[0].Acts = []drill.Act{{Kind: drill.ActPay, After: time.Second}, {Kind: drill.ActCancel, After: time.Second}}
		if err := f.Run(t.Context(), all); err != nil || len(f.Acts()) != 2 {
			t.Errorf("%v, %+v", err, f.Acts())
		}
	})
}

func TestAnActThatMakesNoSenseEndsTheFeed(t *testing.T) {
	f := &drill.Feed{
		Place: func(_ context.Context, r drill.Request) (string, error) { return r.Key, nil },
		Act: func(context.Context, string, string) (bool, error) {
			return false, fmt.Errorf("no such order: %w", drill.ErrRefused)
		},
	}
	all := requests(50)
	all[0].Acts = []drill.Act{{Kind: drill.ActPay}}
	if err := f.Run(t.Context(), all); !errors.Is(err, drill.ErrRefused) || !strings.Contains(err.Error(), "pay order k0") {
		t.Errorf("got %v", err)
	}
}

func TestARequestThatMustBeRefusedIsAnsweredByItsRefusal(t *testing.T) {
	f := &drill.Feed{Doubt: 1, Place: func(_ context.Context, r drill.Request) (string, error) {
		if r.Key == "k1" {
			return "", fmt.Errorf("too risky: %w", drill.ErrRefused)
		}
		return r.Key, nil
	}}
	all := requests(3)
	all[1].Refused = true
	all[2].Refused = true // and is taken all the same
	if err := f.Run(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	answered, asked := f.Placed()
	if answered != 3 || asked != 6 || len(f.Answers()) != 4 {
		t.Errorf("%d answered, %d asked, answers %+v", answered, asked, f.Answers())
	}
}
