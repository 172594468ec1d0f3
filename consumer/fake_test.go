package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/settlemq/settle"
)

// fakeTx is the transaction of fakeInbox: handlers append to its effects.
type fakeTx struct{ in *fakeInbox }

func (t *fakeTx) effect(e *settle.Event) { t.in.effects = append(t.in.effects, e.ID) }

type fakeRow struct {
	id   int64
	item settle.Item
	dead bool
}

// lock is a mutex on which synctest sees a goroutine wait.
type lock chan struct{}

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }

// fakeInbox keeps the contract of settle.Inbox in memory, for one group.
type fakeInbox struct {
	mu   lock
	now  func() time.Time
	pass bool // the last work's Pass
	each bool // a transaction per item, as PostgreSQL has, instead of one for all

	log     map[string]settle.Verdict // by event id
	keys    map[string]bool           // effect keys
	rows    []fakeRow
	lastRow int64
	effects []string
	floors  map[partName]settle.Floor
	epochs  map[partName]int64
	deaths  int
	paused  []settle.Control
	version int64

	applies  int
	dues     int
	hurry    bool                      // Due says that there is more to load
	fail     func(w settle.Work) error // before the commit
	lost     func() error              // after the commit: the answer is lost
	released []string
	// attendance is until when members live, hands what they have written down.
	attendance map[string]time.Time
	hands      map[string][]string
	holds      int
	forgot     []time.Time
}

func newFakeInbox(now func() time.Time) *fakeInbox {
	return &fakeInbox{
		mu: make(lock, 1), now: now, log: map[string]settle.Verdict{}, keys: map[string]bool{},
		floors: map[partName]settle.Floor{}, epochs: map[partName]int64{},
	}
}

// save returns a function that undoes everything since.
func (f *fakeInbox) save() func() {
	log, keys := map[string]settle.Verdict{}, map[string]bool{}
	for k, v := range f.log {
		log[k] = v
	}
	for k, v := range f.keys {
		keys[k] = v
	}
	rows, effects, last := slices.Clone(f.rows), slices.Clone(f.effects), f.lastRow
	return func() { f.log, f.keys, f.rows, f.effects, f.lastRow = log, keys, rows, effects, last }
}

func (f *fakeInbox) Apply(ctx context.Context, w settle.Work, handle func(context.Context, *fakeTx, int) error) ([]settle.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applies++
	f.pass = w.Pass
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, fl := range w.Floors {
		if f.epochs[partName{fl.Partition.Topic, fl.Partition.Number}] != fl.Partition.Epoch {
			return nil, settle.ErrFenced
		}
	}
	rollback := f.save()
	results := make([]settle.Result, len(w.Items))
	broken := map[string]bool{}
	failed := false
	for i, it := range w.Items {
		if failed && !f.each || broken[keyOf(&it.Record)] {
			results[i] = settle.Result{Verdict: settle.VerdictNotRun}
			continue
		}
		undo := f.save()
		v, err := f.one(w, it, func() error { return handle(ctx, &fakeTx{f}, i) })
		if err != nil {
			undo()
			failed = true
			broken[keyOf(&it.Record)] = true
			results[i] = settle.Result{Verdict: settle.VerdictFailed, Err: err}
			continue
		}
		results[i] = settle.Result{Verdict: v}
	}
	var err error
	if !(failed && !f.each) && w.BeforeCommit != nil {
		err = w.BeforeCommit(ctx)
	}
	if failed && !f.each || err != nil {
		rollback()
		for i := range results {
			if results[i].Verdict != settle.VerdictFailed {
				results[i] = settle.Result{Verdict: settle.VerdictNotRun}
			}
		}
		return results, nil
	}
	if err := f.commit(w, !failed, rollback); err != nil {
		return nil, err
	}
	return results, nil
}

// commit moves the floors, unless it is made to fail, or its answer to be lost.
func (f *fakeInbox) commit(w settle.Work, whole bool, rollback func()) error {
	if f.fail != nil {
		if err := f.fail(w); err != nil {
			rollback()
			return err
		}
	}
	for _, fl := range w.Floors {
		name := partName{fl.Partition.Topic, fl.Partition.Number}
		if whole && fl.To.Position > f.floors[name].Position {
			f.floors[name] = fl.To
		}
	}
	if f.lost != nil {
		return f.lost()
	}
	return nil
}

func logID(r *settle.Record) string {
	if r.Event != nil {
		return r.Event.ID
	}
	return fmt.Sprintf("raw:%s.%d.%d", r.At.Topic, r.At.Partition, r.Position)
}

// one decides an item as the contract says.
func (f *fakeInbox) one(w settle.Work, it settle.Item, handle func() error) (settle.Verdict, error) {
	id, key := logID(&it.Record), keyOf(&it.Record)
	row := -1
	if it.RetryID != 0 {
		row = slices.IndexFunc(f.rows, func(r fakeRow) bool { return r.id == it.RetryID && !r.dead })
		if row < 0 {
			return settle.VerdictStored, nil
		}
	}
	if it.Intent == settle.IntentIgnore {
		f.delete(row)
		return settle.VerdictIgnored, nil
	}
	if row < 0 {
		switch v, known := f.log[id]; {
		case known && (v == settle.VerdictApplied || v == settle.VerdictRejected):
			return settle.VerdictDuplicate, nil
		case known:
			return settle.VerdictStored, nil
		}
	}
	if !w.Pass && it.Record.Event != nil && it.Intent != settle.IntentDie {
		behind := slices.ContainsFunc(f.rows, func(r fakeRow) bool {
			return keyOf(&r.item.Record) == key && r.item.Record.Event != nil && (it.RetryID == 0 || r.id < it.RetryID)
		})
		if behind && row < 0 {
			it.Class, it.NextAt, it.Attempt = settle.ClassFollower, f.now(), 0
			f.insert(it, false)
			f.log[id] = settle.VerdictParked
			return settle.VerdictBlocked, nil
		}
		if behind && it.Intent == settle.IntentHandle {
			return settle.VerdictBlocked, nil
		}
	}
	switch it.Intent {
	case settle.IntentPark, settle.IntentDie:
		dead := it.Intent == settle.IntentDie
		v := settle.VerdictParked
		if dead {
			v = settle.VerdictDead
		}
		f.log[id] = v
		if row >= 0 {
			f.rows[row].item, f.rows[row].dead = it, dead
		} else {
			f.insert(it, dead)
		}
		return v, nil
	}
	return f.run(it, row, handle)
}

// run calls the handler of an item that is new.
func (f *fakeInbox) run(it settle.Item, row int, handle func() error) (settle.Verdict, error) {
	id := logID(&it.Record)
	if it.EffectKey != "" {
		k := it.Record.Event.Type + "/" + it.EffectKey
		if f.keys[k] {
			f.log[id] = settle.VerdictApplied
			f.delete(row)
			return settle.VerdictDuplicate, nil
		}
		f.keys[k] = true
	}
	v := settle.VerdictApplied
	if err := handle(); err != nil {
		if _, rejected := settle.Rejected(err); !rejected {
			return 0, err
		}
		v = settle.VerdictRejected
	}
	f.log[id] = v
	f.delete(row)
	return v, nil
}

func (f *fakeInbox) insert(it settle.Item, dead bool) {
	f.lastRow++
	it.RetryID = f.lastRow
	f.rows = append(f.rows, fakeRow{f.lastRow, it, dead})
}

func (f *fakeInbox) delete(row int) {
	if row >= 0 {
		f.rows = slices.Delete(slices.Clone(f.rows), row, row+1)
	}
}

func (f *fakeInbox) Due(_ context.Context, _ string, limit int) (settle.Due, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dues++
	var due settle.Due
	if f.hurry {
		due.Next = f.now()
	}
	heads := map[string]bool{} // key → its head is due
	for _, r := range f.rows {
		if r.dead && f.pass {
			continue
		}
		key := keyOf(&r.item.Record)
		yes, seen := heads[key]
		if !seen {
			yes = !r.dead && !r.item.NextAt.After(f.now())
			heads[key] = yes
			if !r.dead && !yes {
				due.Next = earliest(due.Next, r.item.NextAt)
			}
		}
		if yes && !r.dead && len(due.Items) < limit {
			due.Items = append(due.Items, r.item)
		}
	}
	return due, nil
}

func (f *fakeInbox) Claim(_ context.Context, r settle.ClaimRequest) ([]settle.Claim, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var claims []settle.Claim
	for i := range r.Partitions {
		name := partName{r.Topic, i}
		if f.epochs[name] == 0 {
			f.epochs[name] = 1
		}
		claims = append(claims, settle.Claim{
			Partition: settle.Partition{Topic: r.Topic, Number: i, Owner: r.Owner, Epoch: f.epochs[name], Generation: "g"},
			Floor:     f.floors[name], Deaths: f.deaths, Expires: f.now().Add(r.TTL),
		})
	}
	return claims, nil
}

func (f *fakeInbox) Release(_ context.Context, _, owner string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.released = append(f.released, owner)
	return nil
}

func (f *fakeInbox) Attend(_ context.Context, r settle.Attendance) (settle.Departed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.attendance == nil {
		f.attendance, f.hands = map[string]time.Time{}, map[string][]string{}
	}
	f.attendance[r.Owner] = f.now().Add(r.TTL)
	var d settle.Departed
	for owner, until := range f.attendance {
		if !until.After(f.now()) {
			d.Deaths++
			d.InHand = append(d.InHand, f.hands[owner]...)
		}
	}
	return d, nil
}

func (f *fakeInbox) Hold(_ context.Context, h settle.Hand) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hands[h.Owner] = h.EventIDs
	f.holds++
	return nil
}

func (f *fakeInbox) RaiseFloor(context.Context, string, settle.Partition, settle.Floor) error {
	return errors.New("not used")
}

func (f *fakeInbox) Forget(_ context.Context, _ string, before time.Time, _ int) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgot = append(f.forgot, before)
	return 0, nil
}

func (f *fakeInbox) Controls(context.Context) (settle.Controls, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return settle.Controls{Version: f.version, Rows: f.paused}, nil
}

func (f *fakeInbox) pause(rows ...settle.Control) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	f.paused = rows
}

// row returns what the retry store has of an event.
func (f *fakeInbox) row(id string) (settle.Item, bool, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rows {
		if logID(&r.item.Record) == id {
			return r.item, r.dead, true
		}
	}
	return settle.Item{}, false, false
}

func (f *fakeInbox) applied() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.effects)
}
