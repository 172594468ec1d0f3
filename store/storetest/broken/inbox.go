package broken

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
)

// brokenStores returns, for each rule of the suite, what breaks it.
func brokenStores() map[string]func(inboxStore) inboxStore {
	all := map[string]func(inboxStore) inboxStore{}
	for _, part := range []map[string]func(inboxStore) inboxStore{brokenApply(), brokenOrder(), brokenWindow(), brokenSequence(), brokenOwners(), brokenLetters(), brokenActs(), brokenCompensation()} {
		maps.Copy(all, part)
	}
	return all
}

func always(*settle.Item) bool { return true }

func brokenApply() map[string]func(inboxStore) inboxStore {
	return map[string]func(inboxStore) inboxStore{
		"an event delivered fifty times at once takes effect once":     renamed(always),
		"an event delivered twice in one batch takes effect once":      renamed(always),
		"a redelivered event is a duplicate, for its group only":       renamed(always),
		"what has taken effect can't be parked or die any more":        renamed(func(it *settle.Item) bool { return it.Intent != settle.IntentHandle }),
		"an event that died in other hands is not run by a late owner": renamed(func(it *settle.Item) bool { return it.Intent == settle.IntentHandle }),
		"a waiting event that was dealt with elsewhere is not dealt with again": renamed(func(it *settle.Item) bool {
			return it.Intent == settle.IntentHandle && it.RetryID != 0
		}),
		"a handler that fails leaves nothing of its event, and the event is new again": handling(func(h func() error) error {
			_ = h()
			return nil
		}),
		"a rejected event is done and keeps what its handler wrote": handling(func(h func() error) error {
			if err := h(); err != nil {
				return errNotWanted
			}
			return nil
		}),
		"a panic of a handler is a failure that leaves nothing": handling(func(h func() error) error {
			defer func() { _ = recover() }()
			return h()
		}),
		"an event of a type that is not handled leaves no record": items(func(it *settle.Item) { it.Intent = settle.IntentHandle }),
		"a context that ends is nobody's failure and keeps nothing": inbox(func(b *brokenInbox) {
			b.apply = func(ctx context.Context, w settle.Work, h handle) ([]settle.Result, error) {
				return b.Inbox.Apply(context.WithoutCancel(ctx), w, func(_ context.Context, tx *sql.Tx, i int) error { return h(ctx, tx, i) })
			}
		}),
		"what a batch says before its commit decides about all of it":         work(func(w *settle.Work) { w.BeforeCommit = nil }),
		"of two events with one effect key the first takes effect":            items(func(it *settle.Item) { it.EffectKey = "" }),
		"an effect key is held by what took effect, not by what waits":        items(func(it *settle.Item) { it.EffectKey = "" }),
		"a row that a foreign consumer has left is taken over once it is old": work(func(w *settle.Work) { w.TakeoverAfter = time.Nanosecond }),
		"an event is handled, parked and dead also when its record has a time that no column holds": items(func(it *settle.Item) {
			if it.Record.RecordedAt.Year() > 9999 {
				it.Intent = settle.IntentIgnore
			}
		}),
	}
}

func brokenOrder() map[string]func(inboxStore) inboxStore {
	pass := work(func(w *settle.Work) { w.Pass = true })
	return map[string]func(inboxStore) inboxStore{
		"a parked event holds what follows in its key, other keys flow":                     pass,
		"what is due comes with those behind it, and takes effect in order":                 pass,
		"a key goes on from where it stopped when what is due fails again":                  pass,
		"what waits for its time, and what waits behind it, is not due":                     items(func(it *settle.Item) { it.NextAt = time.Time{} }),
		"a dead event holds its key until it is discarded":                                  pass,
		"with pass a failed event holds nothing":                                            work(func(w *settle.Work) { w.Pass = false }),
		"a failed event of a sequence holds those after it, and a discard passes its place": pass,
		"an answer of what is due is bounded and says that there is more": inbox(func(b *brokenInbox) {
			b.due = func(ctx context.Context, group string, limit int) (settle.Due, error) {
				return b.Inbox.Due(ctx, group, 10*limit)
			}
		}),
		"a waiting record that can't be read comes as one, beside the others": inbox(func(b *brokenInbox) {
			b.due = func(ctx context.Context, group string, limit int) (settle.Due, error) {
				d, err := b.Inbox.Due(ctx, group, limit)
				d.Items = slices.DeleteFunc(d.Items, func(it settle.Item) bool { return it.Record.DecodeErr != nil })
				return d, err
			}
		}),
	}
}

func brokenWindow() map[string]func(inboxStore) inboxStore {
	accepting := items(func(it *settle.Item) { it.AcceptDuplicate = true })
	return map[string]func(inboxStore) inboxStore{
		"an event older than the dedup floor and unknown becomes a dead letter that holds nothing": accepting,
		"an event beyond the window is replayed only if a duplicate is accepted": governance(func(b *brokenGovernance) {
			b.replay = func(ctx context.Context, a govern.Act, _ govern.ReplayOptions, ids []int64) ([]govern.Outcome, error) {
				return b.Store.Replay(ctx, a, govern.ReplayOptions{AcceptPossibleDuplicate: true}, ids...)
			}
		}),
		"an event inside the dedup window is known, one that was forgotten is not applied again": inbox(func(b *brokenInbox) {
			b.forget = func(ctx context.Context, group string, before time.Time, limit int) (int, error) {
				return b.Inbox.Forget(ctx, group, before.Add(24*time.Hour), limit)
			}
		}),
		"the dedup floor never goes back, and other groups keep theirs": inbox(func(b *brokenInbox) {
			b.forget = func(ctx context.Context, group string, before time.Time, limit int) (int, error) {
				_, _ = b.Inbox.Forget(ctx, "billing", before, limit)
				return b.Inbox.Forget(ctx, group, before, limit)
			}
		}),
		"forgetting leaves what waits and what is dead": inbox(func(b *brokenInbox) {
			b.forget = func(ctx context.Context, group string, before time.Time, limit int) (int, error) {
				due, err := b.Inbox.Due(ctx, group, limit)
				if err != nil {
					return 0, err
				}
				for i := range due.Items {
					due.Items[i].Intent = settle.IntentIgnore
				}
				if _, err := b.Inbox.Apply(ctx, settle.Work{Group: group, Items: due.Items}, nil); err != nil {
					return 0, err
				}
				return b.Inbox.Forget(ctx, group, before, limit)
			}
		}),
		"without the producer's time the broker's counts, with neither nothing is too old": items(func(it *settle.Item) { it.Record.RecordedAt = time.Time{} }),
	}
}

func brokenSequence() map[string]func(inboxStore) inboxStore {
	unordered := work(func(w *settle.Work) { w.OrderedBySeq = false })
	unedited := items(func(it *settle.Item) {
		if it.Record.Event != nil {
			it.Record.Event.Supersedes = ""
		}
	})
	return map[string]func(inboxStore) inboxStore{
		"the first event that a group sees sets the base of its sequence":          unordered,
		"an event whose place was passed becomes a dead letter that holds nothing": unordered,
		"an event with a gap before it waits until the gap is filled":              unordered,
		"an event whose gap is not filled in time becomes a dead letter":           unordered,
		"the place of an event that was discarded out of turn is no gap": governance(func(b *brokenGovernance) {
			b.discard = func(_ context.Context, _ govern.Act, ids []int64) ([]govern.Outcome, error) {
				return []govern.Outcome{{ID: ids[0], Result: "done"}}, nil
			}
		}),
		"an event of a type that is not handled keeps its place in the sequence": items(func(it *settle.Item) {
			if it.Intent == settle.IntentIgnore {
				it.Record.Event.AggregateSeq = 0
			}
		}),
		"an edited event takes the place of the dead one and lets its key go on":      unedited,
		"an edited event that fails waits in the place of the one it was edited from": unedited,
		"an edited event of one that took effect is a duplicate":                      unedited,
		"an event that comes after its edit is a duplicate":                           unedited,
		"of two edits of one event the first takes effect, whichever they name":       unedited,
	}
}

func brokenOwners() map[string]func(inboxStore) inboxStore {
	floorless := work(func(w *settle.Work) { w.Floors = nil })
	return map[string]func(inboxStore) inboxStore{
		"members share the partitions evenly, none has two owners": inbox(func(b *brokenInbox) {
			b.claim = func(ctx context.Context, r settle.ClaimRequest) ([]settle.Claim, error) {
				r.Owner = "x"
				return b.Inbox.Claim(ctx, r)
			}
		}),
		"a floor moves with the effects, and the next owner starts from it":     floorless,
		"the work of an owner that was replaced is refused wholly":              floorless,
		"a stream of another generation stops the work and keeps nothing of it": floorless,
		"owners that die in a row without moving the floor are counted": inbox(func(b *brokenInbox) {
			b.claim = func(ctx context.Context, r settle.ClaimRequest) ([]settle.Claim, error) {
				claims, err := b.Inbox.Claim(ctx, r)
				for i := range claims {
					claims[i].Deaths = 0
				}
				return claims, err
			}
		}),
		"a member that ends without release is told of, with what it had in hand": inbox(func(b *brokenInbox) {
			b.attend = func(ctx context.Context, r settle.Attendance) (settle.Departed, error) {
				d, err := b.Inbox.Attend(ctx, r)
				return settle.Departed{Deaths: d.Deaths}, err
			}
		}),
		"a member that lives, or has left, is no death": inbox(func(b *brokenInbox) { b.release = func() error { return nil } }),
		"a member that died long ago is forgotten": inbox(func(b *brokenInbox) {
			b.attend = func(ctx context.Context, r settle.Attendance) (settle.Departed, error) {
				r.Remember = time.Hour
				return b.Inbox.Attend(ctx, r)
			}
		}),
		"the floor of an idle partition rises and never goes back": inbox(func(b *brokenInbox) { b.raise = func() error { return nil } }),
	}
}

func brokenLetters() map[string]func(inboxStore) inboxStore {
	// done says yes to everything.
	done := func(_ context.Context, _ govern.Act, _ govern.ReplayOptions, ids []int64) ([]govern.Outcome, error) {
		var out []govern.Outcome
		for _, id := range ids {
			out = append(out, govern.Outcome{ID: id, Result: "done"})
		}
		return out, nil
	}
	yes := governance(func(b *brokenGovernance) { b.replay = done })
	return map[string]func(inboxStore) inboxStore{
		"a replay takes effect once, before what waits behind it, and says who asked": yes,
		"of two people who replay one dead letter one is refused":                     yes,
		"what was discarded can't be replayed":                                        yes,
		"a replay that fails again opens the same dead letter anew":                   renamed(func(it *settle.Item) bool { return it.Intent == settle.IntentDie }),
		"each id of a replay has its own outcome": governance(func(b *brokenGovernance) {
			b.replay = func(ctx context.Context, a govern.Act, o govern.ReplayOptions, ids []int64) ([]govern.Outcome, error) {
				return b.Store.Replay(ctx, a, o, ids[0])
			}
		}),
		"a discard without a reason, or by nobody, is refused": governance(func(b *brokenGovernance) {
			b.discard = func(ctx context.Context, _ govern.Act, ids []int64) ([]govern.Outcome, error) {
				return b.Store.Discard(ctx, govern.Act{By: "?", Reason: "?"}, ids...)
			}
		}),
		"a record that can't be understood is kept as found and can only be discarded": governance(func(b *brokenGovernance) {
			b.letter = func(ctx context.Context, id int64) (govern.DeadLetter, error) {
				d, err := b.Store.DeadLetter(ctx, id)
				d.Raw = []byte("?")
				return d, err
			}
		}),
		"dead letters are found by state, group, type, class, key and id": governance(func(b *brokenGovernance) {
			b.letters = func(ctx context.Context, f govern.Filter) ([]govern.DeadLetter, error) {
				f.Key = ""
				return b.Store.DeadLetters(ctx, f)
			}
		}),
	}
}

func brokenActs() map[string]func(inboxStore) inboxStore {
	return map[string]func(inboxStore) inboxStore{
		"every act is in the audit chain, in order, and an edit of it is found": governance(func(b *brokenGovernance) {
			// It computes the hashes anew instead of showing those it has kept.
			b.audit = func(ctx context.Context, after int64, limit int) ([]govern.AuditEntry, error) {
				all, err := b.Store.Audit(ctx, 0, 1000)
				prev := ""
				for i := range all {
					all[i].PrevHash = prev
					all[i].Hash = all[i].Sum()
					prev = all[i].Hash
				}
				return slices.DeleteFunc(all, func(e govern.AuditEntry) bool { return e.Seq <= after }), err
			}
		}),
		"a pause is seen by every process until it is resumed, and is audited once": inbox(func(b *brokenInbox) {
			b.controls = func(context.Context) (settle.Controls, error) { return settle.Controls{}, nil }
		}),
		"a group and a topic are known by what was done for them": governance(func(b *brokenGovernance) {
			b.known = func() (bool, error) { return true, nil }
		}),
		"what can't be paused or skipped is refused and not audited": governance(func(b *brokenGovernance) { b.pause = func() error { return nil } }),
		"a trail tells cause, repair and effect, by event, key and trace": governance(func(b *brokenGovernance) {
			b.trail = func(ctx context.Context, id string) ([]govern.Step, error) {
				steps, err := b.Store.Trail(ctx, id)
				return slices.DeleteFunc(steps, func(s govern.Step) bool { return s.Stage == govern.StageReplay }), err
			}
		}),
	}
}
