package concurrent

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/settlemq/settle/govern"
)

// AuditChain lets six people act through two processes, so many times each. Every
// act is in the chain, and the chain is whole.
func AuditChain(t *testing.T, open Open, times int) {
	all := open(t, 2, Options{})
	const people = 6
	var wg sync.WaitGroup
	for who := range people {
		g := all[who%2].Governance
		wg.Go(func() {
			for n := range times {
				if err := g.Pause(t.Context(), govern.Act{By: fmt.Sprint("person ", who)}, "key", fmt.Sprintf("g/%d-%d", who, n)); err != nil {
					t.Errorf("Pause: %v", err)
				}
			}
		})
	}
	wg.Wait()
	entries, err := all[0].Governance.Audit(t.Context(), 0, 1000)
	if err = errors.Join(err, govern.VerifyChain(t.Context(), all[1].Governance)); err != nil || len(entries) != people*times {
		t.Errorf("%d acts are audited, want %d: %v", len(entries), people*times, err)
	}
}
