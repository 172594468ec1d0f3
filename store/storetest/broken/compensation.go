package broken

import (
	"context"
	"slices"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
)

func brokenCompensation() map[string]func(inboxStore) inboxStore {
	// It replays what is to be compensated.
	replaying := governance(func(b *brokenGovernance) {
		b.compensate = func(ctx context.Context, a govern.Act, ids []int64) ([]govern.Outcome, error) {
			return b.Store.Replay(ctx, a, govern.ReplayOptions{}, ids...)
		}
	})
	// It believes an item about what a person wished.
	believing := inbox(func(b *brokenInbox) {
		b.apply = func(ctx context.Context, w settle.Work, h handle) ([]settle.Result, error) {
			due, err := b.Inbox.Due(ctx, w.Group, 100)
			if err != nil {
				return nil, err
			}
			w.Items = slices.Clone(w.Items)
			for i := range w.Items {
				for _, d := range due.Items {
					if d.RetryID == w.Items[i].RetryID {
						w.Items[i].Compensate = d.Compensate
					}
				}
			}
			return b.Inbox.Apply(ctx, w, h)
		}
	})
	return map[string]func(inboxStore) inboxStore{
		"a compensation takes effect once, before what waits behind it, and says by whom and why":  replaying,
		"a compensation that fails opens the same dead letter anew, to be replayed or compensated": replaying,
		"of two people of whom one replays and one compensates a dead letter one is refused": governance(func(b *brokenGovernance) {
			b.compensate = func(_ context.Context, _ govern.Act, ids []int64) ([]govern.Outcome, error) {
				return []govern.Outcome{{ID: ids[0], Result: "done"}}, nil
			}
		}),
		"an event that died is not compensated unasked, nor handled against a person's wish":       believing,
		"what was compensated has no effect that an effect key would hold":                         replaying,
		"a failed compensation of an event beyond the dedup window makes no replay of it harmless": replaying,
		"a compensated event keeps its place in the sequence": items(func(it *settle.Item) {
			if it.Compensate {
				it.Record.Event.AggregateSeq = 0
			}
		}),
		"what a compensation finds that it needs not do is recorded, and ends the event too": handling(func(h func() error) error {
			_ = h()
			return nil
		}),
		"a compensation needs a name and a reason, a record that can be understood and an open dead letter": governance(func(b *brokenGovernance) {
			b.compensate = func(ctx context.Context, _ govern.Act, ids []int64) ([]govern.Outcome, error) {
				return b.Store.Compensate(ctx, govern.Act{By: "?", Reason: "?"}, ids...)
			}
		}),
	}
}
