package concurrent

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// HangingOwner lets a process hang in a handler for longer than its partitions
// are its own. It keeps the one that it writes for until it ends; what it has done by
// then is kept, and what it does after it is refused.
func HangingOwner(t *testing.T, open Open) {
	all := processes(t, open, 2)
	old, next := all[0].Inbox, all[1].Inbox
	ask := func(owner string, ttl time.Duration) settle.ClaimRequest {
		return settle.ClaimRequest{Group: "g", Topic: "t", Owner: owner, Partitions: 2, TTL: ttl}
	}
	claims, err := old.Claim(t.Context(), ask("x", 50*time.Millisecond))
	if err != nil || len(claims) != 2 {
		t.Fatal(claims, err)
	}
	w := settle.Work{Group: "g", Items: []settle.Item{Item("a", 1)}, Floors: []settle.FloorMove{{Partition: claims[0].Partition, To: settle.Floor{Generation: "g1", Position: 1, EventID: "a-001"}}}}
	results, err := old.Apply(t.Context(), w, func(ctx context.Context, tx *sql.Tx, _ int) error {
		for {
			got, err := next.Claim(ctx, ask("y", time.Minute))
			if err != nil {
				return err
			}
			if len(got) == 1 && got[0].Partition.Number == 1 {
				return all[0].WriteEffect(ctx, tx, "a-001")
			}
			if len(got) > 1 {
				return errors.New("a partition is taken while its owner writes")
			}
		}
	})
	if err != nil || results[0].Verdict != applied {
		t.Fatalf("Apply gives %v, %v", results, err)
	}
	got, err := next.Claim(t.Context(), ask("y", time.Minute))
	if err != nil || len(got) != 2 || got[0].Floor.Position != 1 || got[0].Deaths != 0 || got[1].Deaths != 1 {
		t.Fatalf("Claim gives %+v, %v; want both, the floor at 1, and one death of the other", got, err)
	}
	w.Items = []settle.Item{Item("a", 2)}
	if _, err := old.Apply(t.Context(), w, func(context.Context, *sql.Tx, int) error { return nil }); !errors.Is(err, settle.ErrFenced) {
		t.Fatalf("Apply of the old owner gives %v, want %v", err, settle.ErrFenced)
	}
}
