package broken

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

type breaking = func(outboxStore) outboxStore

// brokenOutboxes returns, for each rule of the suite, what breaks it.
func brokenOutboxes() map[string]breaking {
	all := map[string]breaking{}
	for _, part := range []map[string]breaking{brokenAppends(), brokenPolls(), brokenLeases(), brokenCommits(), brokenParks(), brokenSides(), brokenShares(), brokenUpkeep(), brokenResends(), brokenRestarts()} {
		maps.Copy(all, part)
	}
	return all
}

// appending is an outbox that is a function of the sound one.
type appending func(context.Context, *sql.Tx, []*settle.Event) error

func (a appending) Append(ctx context.Context, tx *sql.Tx, events ...*settle.Event) error {
	return a(ctx, tx, events)
}

func appended(change func(outbox settle.Outbox[*sql.Tx]) appending) breaking {
	return func(s outboxStore) outboxStore {
		s.Outbox = change(s.Outbox)
		return s
	}
}

func brokenAppends() map[string]breaking {
	return map[string]breaking{
		"a rolled back transaction leaves no event": func(s outboxStore) outboxStore {
			s.Rollback = s.Commit
			return s
		},
		"an event is invisible until its transaction commits": func(s outboxStore) outboxStore {
			sound := s.Outbox
			s.Outbox = appending(func(ctx context.Context, tx *sql.Tx, events []*settle.Event) error {
				return errors.Join(sound.Append(ctx, tx, events...), tx.Commit())
			})
			s.Commit = func(*sql.Tx) error { return nil }
			return s
		},
		"events of one call and of later transactions come in the order of their commits": appended(func(o settle.Outbox[*sql.Tx]) appending {
			return func(ctx context.Context, tx *sql.Tx, events []*settle.Event) error {
				slices.Reverse(events)
				return o.Append(ctx, tx, events...)
			}
		}),
		"an event id that is in the outbox is refused and leaves nothing of its call": appended(func(o settle.Outbox[*sql.Tx]) appending {
			return func(ctx context.Context, tx *sql.Tx, events []*settle.Event) error {
				for _, e := range events {
					if err := o.Append(ctx, tx, e); err != nil {
						return err
					}
				}
				return nil
			}
		}),
		"an event id twice in one call is refused": appended(func(o settle.Outbox[*sql.Tx]) appending {
			return func(ctx context.Context, tx *sql.Tx, events []*settle.Event) error {
				return o.Append(ctx, tx, slices.CompactFunc(events, func(a, b *settle.Event) bool { return a.ID == b.ID })...)
			}
		}),
		"an invalid event is refused by field and the transaction goes on": appended(func(o settle.Outbox[*sql.Tx]) appending {
			return func(ctx context.Context, tx *sql.Tx, events []*settle.Event) error {
				return o.Append(ctx, tx, slices.DeleteFunc(events, func(e *settle.Event) bool { return e.Prepare(time.Now()) != nil })...)
			}
		}),
		"payloads come back byte for byte": rowsOf(func(r *relay.Row) {
			var v any
			if json.Unmarshal(r.Event.Payload, &v) == nil {
				r.Event.Payload, _ = json.Marshal(v)
			}
		}),
		"every field of an event comes back":             rowsOf(func(r *relay.Row) { r.Event.Supersedes = "" }),
		"the id of a deleted event is never given again": logged(func(b *brokenLog) { b.load = func(st *relay.State) { st.MaxID-- } }),
	}
}

func brokenPolls() map[string]breaking {
	query := func(change func(*relay.PollQuery)) breaking { return logged(func(b *brokenLog) { b.query = change }) }
	page := func(change func(*relay.Page)) breaking { return logged(func(b *brokenLog) { b.page = change }) }
	return map[string]breaking{
		"a page is bounded by rows and says that it is cut":                            page(func(p *relay.Page) { p.Complete = true }),
		"a page is bounded by bytes, says that it is cut, and takes a large first row": query(func(q *relay.PollQuery) { q.MaxBytes = 1 << 20 }),
		"a page can be bounded by an id":                                               query(func(q *relay.PollQuery) { q.UpTo = 0 }),
		"holes are read again, in order with what is above the cursor":                 query(func(q *relay.PollQuery) { q.Holes = nil }),
		"a page that its holes fill is cut":                                            page(func(p *relay.Page) { p.Complete = true }),
		"owners can be asked and end":                                                  logged(func(b *brokenLog) { b.owners = func(e *relay.Evidence) { e.Clear = false } }),
		"the version of the controls changes with each act":                            page(func(p *relay.Page) { p.Controls = 1 }),
		"a page tells the newest checkpoint": func(s outboxStore) outboxStore {
			highest := int64(0)
			return page(func(p *relay.Page) {
				highest = max(highest, p.Number)
				p.Number = highest
			})(s)
		},
	}
}

func brokenLeases() map[string]breaking {
	both := func(change func(*brokenLog)) breaking {
		return func(s outboxStore) outboxStore {
			one, other := &brokenLog{Store: s.Store}, &brokenLog{Store: s.Standby}
			change(one)
			change(other)
			s.Store, s.Standby = one, other
			return s
		}
	}
	mute := logged(func(b *brokenLog) { b.resign = true })
	return map[string]breaking{
		"a standby waits until the lease has run out": both(func(b *brokenLog) {
			b.lead = func(l relay.Lease) relay.Lease {
				l.Held = true
				return l
			}
		}),
		"a renewed lease runs on and keeps its epoch": func(s outboxStore) outboxStore {
			s.Store = &deaf{brokenLog: brokenLog{Store: s.Store}}
			return s
		},
		"a leader that was silent goes on if nobody took over": func(s outboxStore) outboxStore {
			times := int64(0)
			return logged(func(b *brokenLog) {
				b.lead = func(l relay.Lease) relay.Lease {
					l.Epoch += times
					times++
					return l
				}
			})(s)
		},
		"after a clean end the successor starts at once and counts no death": mute,
		"a leader that ends soon after it took over is a death, and deaths add up": both(func(b *brokenLog) {
			b.lead = func(l relay.Lease) relay.Lease {
				l.Deaths = min(l.Deaths, 1)
				return l
			}
		}),
		"a leader that lived long ends the row of deaths": both(func(b *brokenLog) {
			b.lead = func(l relay.Lease) relay.Lease {
				l.Deaths = max(l.Deaths, int(l.Epoch)-1)
				return l
			}
		}),
		"every write of a leader that was overtaken is refused and leaves nothing": unfenced,
		"a leader that has resigned may not write":                                 mute,
		"a leader that is overtaken learns it at its next renewal":                 logged(remembers),
	}
}

func brokenCommits() map[string]breaking {
	return map[string]breaking{
		"a leader finds the readers of the newest checkpoint and the events at their cursors": committed(forgetOpen),
		"a commit is all or nothing": logged(func(b *brokenLog) {
			number := int64(1000)
			b.commit = func(ctx context.Context, l relay.Lease, f relay.Flush) error {
				early := relay.Flush{Checkpoint: f.Checkpoint, Park: f.Park}
				number++
				early.Checkpoint.Number = number
				if err := b.Store.Commit(ctx, l, early); err != nil {
					return err
				}
				f.Park = nil
				return b.Store.Commit(ctx, l, f)
			}
		}),
		"a commit whose context is done leaves nothing": logged(func(b *brokenLog) {
			b.commit = func(ctx context.Context, l relay.Lease, f relay.Flush) error {
				return b.Store.Commit(context.WithoutCancel(ctx), l, f)
			}
		}),
		"rows move from side to side in one commit":                                    committed(stayBehind),
		"where the broker has an event is kept":                                        committed(func(f *relay.Flush) { f.Sent = f.Sent[:min(1, len(f.Sent))] }),
		"an event is PENDING until its acknowledgement is committed":                   committed(forgetOpen),
		"only an event that has failed is in RETRY":                                    committed(func(f *relay.Flush) { eachPark(f, func(p *relay.Park) { p.Attempts = 1 }) }),
		"a slow destination's events are PENDING until its own reader has passed them": committed(oneReader),
		"what a slow destination has not read is not deleted":                          committed(oneReader),
		"what one of a topic's brokers has not read is not deleted, and not SENT":      committed(oneReader),
	}
}

func forgetOpen(f *relay.Flush) {
	f.Checkpoint.Readers = slices.Clone(f.Checkpoint.Readers)
	for i := range f.Checkpoint.Readers {
		f.Checkpoint.Readers[i].Open = nil
	}
}

func oneReader(f *relay.Flush) {
	f.Checkpoint.Readers = slices.DeleteFunc(slices.Clone(f.Checkpoint.Readers), func(r relay.Reader) bool { return r.Destination != "" })
}

// stayBehind leaves rows in the side tables that they come from.
func stayBehind(f *relay.Flush) {
	for i := range f.Sent {
		f.Sent[i].From = relay.FromLog
	}
	for i := range f.Delay {
		f.Delay[i].From = relay.FromLog
	}
	for i := range f.Skip {
		f.Skip[i].From = relay.FromLog
	}
	eachPark(f, func(p *relay.Park) { p.From = relay.FromLog })
}

func eachPark(f *relay.Flush, change func(*relay.Park)) {
	for i := range f.Park {
		change(&f.Park[i])
	}
}

// careless is a Governance that says done and does nothing.
type careless struct{ govern.Store }

func (careless) Discard(_ context.Context, _ govern.Act, ids ...int64) ([]govern.Outcome, error) {
	return []govern.Outcome{{ID: ids[0], Result: "done"}}, nil
}

func brokenParks() map[string]breaking {
	dying := func(change func(*relay.Death)) breaking {
		return committed(func(f *relay.Flush) {
			for i := range f.Dead {
				change(&f.Dead[i])
			}
		})
	}
	return map[string]breaking{
		"parked rows come back in the order in which they were parked, by destination and key": logged(func(b *brokenLog) {
			b.side = func(p *relay.SidePage) {
				slices.SortFunc(p.Rows, func(a, b relay.Row) int { return cmp.Compare(a.ID, b.ID) })
			}
		}),
		"a page of a parked key is bounded and says so":        logged(func(b *brokenLog) { b.ask = func(q *relay.SideQuery) { q.MaxRows = 100 } }),
		"a key is free again when its last parked row is gone": committed(stayBehind),
		"an attempt moves the due time of the head":            committed(func(f *relay.Flush) { f.Attempts = nil }),
		"with how many others a suspect was tried comes back": committed(func(f *relay.Flush) {
			for i := range f.Attempts {
				f.Attempts[i].Together = 0
			}
		}),
		"what is known of a parked row comes back":                                     committed(func(f *relay.Flush) { eachPark(f, func(p *relay.Park) { p.MessageID = "" }) }),
		"a dead head holds its key and is a dead letter with its payload":              dying(func(d *relay.Death) { d.Unblock = true }),
		"with pass a dead row lets those behind it go on":                              dying(func(d *relay.Death) { d.Unblock = false }),
		"a row parked and dead in one commit is a dead letter":                         committed(func(f *relay.Flush) { f.Dead = nil }),
		"a replayed dead letter is due again in its place, and closed when it is sent": committed(stayBehind),
		"a parked row whose event is gone is returned as gone": logged(func(b *brokenLog) {
			b.side = func(p *relay.SidePage) { p.Rows = slices.DeleteFunc(p.Rows, func(r relay.Row) bool { return r.Gone }) }
		}),
		"an event that dies again after a replay opens its dead letter again": func(s outboxStore) outboxStore {
			died := 0
			return committed(func(f *relay.Flush) {
				if died += len(f.Dead); died > 1 {
					f.Dead = nil
				}
			})(s)
		},
		"a discarded dead letter lets those behind it go on": func(s outboxStore) outboxStore {
			s.Governance = careless{s.Governance}
			return s
		},
	}
}

func brokenSides() map[string]breaking {
	ask := func(change func(*relay.SideQuery)) breaking { return logged(func(b *brokenLog) { b.ask = change }) }
	all := ask(func(q *relay.SideQuery) { q.Held = nil })
	return map[string]breaking{
		"delayed rows come back when due, in the order of their due times": ask(func(q *relay.SideQuery) { q.Now = q.Now.Add(10 * time.Hour) }),
		"delayed rows of held destinations are left out":                   all,
		"late rows of held destinations are left out":                      all,
		"a late row that is not due yet is delayed, and late no more":      committed(stayBehind),
		"a cold hole that is filled late is listed once":                   committed(stayBehind),
		"an event that is to be skipped is passed once":                    committed(func(f *relay.Flush) { f.Skip = nil }),
		"a parked event that is skipped lets those behind it go on":        committed(stayBehind),
	}
}

func brokenUpkeep() map[string]breaking {
	retain := func(change func(before *time.Time, limit *int)) breaking {
		return logged(func(b *brokenLog) { b.retain = change })
	}
	return map[string]breaking{
		"only what is acknowledged, old and in no side table is deleted":             retain(func(before *time.Time, _ *int) { *before = before.Add(24 * time.Hour) }),
		"a deletion is bounded and goes on with the next":                            retain(func(_ *time.Time, limit *int) { *limit *= 100 }),
		"without a time no event is deleted and the position stays":                  retain(func(before *time.Time, _ *int) { *before = time.Now().Add(24 * time.Hour) }),
		"a row that comes late is not deleted before it was sent, however old it is": committed(func(f *relay.Flush) { f.Cold = nil }),
	}
}
