package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/settlemq/settle"
)

// fakeStore is an outbox in memory that checks at every commit that nothing is
// passed which is neither done nor recorded.
type fakeStore struct {
	mu     sync.Mutex
	now    func() time.Time
	rows   map[int64]*fakeRow
	nextID int64

	epoch   int64
	owner   string
	expires time.Time
	clean   bool
	deaths  int
	taken   time.Time

	checkEpoch int64
	check      Checkpoint
	parked     map[[2]string][]fakeParked
	delayed    map[int64]Delay
	extra      map[int64]string // id to message id
	// owed are the destinations of rows of the two, where they are recorded.
	owedDelayed, owedExtra map[int64][]string
	// goes are the destinations of rows that the log has come to, where there are
	// routes, doneAt those that are done with one.
	goes       map[int64][]string
	doneAt     map[string]bool
	finished   map[int64]bool // rows of which a flush said that all have them
	gap        map[int64]bool
	dead       map[int64]Death
	skipped    map[int64]bool
	controls   Controls
	parkNo     int64
	notDurable bool
	owners     func(Evidence) Evidence
	retains    []time.Time
	fails      map[kind]error // what a command of this kind answers
	wrong      []string
	commits    []Flush
}

type fakeRow struct {
	row     Row
	visible bool
	sent    bool
}

type fakeParked struct {
	row    Row
	nextAt time.Time
	dead   bool
	class  settle.Class
}

func newFakeStore(now func() time.Time) *fakeStore {
	return &fakeStore{
		now: now, rows: map[int64]*fakeRow{}, parked: map[[2]string][]fakeParked{}, delayed: map[int64]Delay{},
		owedDelayed: map[int64][]string{}, owedExtra: map[int64][]string{}, goes: map[int64][]string{}, doneAt: map[string]bool{}, finished: map[int64]bool{},
		extra: map[int64]string{}, gap: map[int64]bool{}, dead: map[int64]Death{}, skipped: map[int64]bool{},
		owners: func(Evidence) Evidence { return Evidence{Known: true, Clear: true} }, fails: map[kind]error{},
	}
}

// allocate gives an id away whose row is not visible yet.
func (s *fakeStore) allocate(key, topic string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextID++
	id := s.nextID
	s.rows[id] = &fakeRow{row: Row{ID: id, Event: &settle.Event{
		ID: fmt.Sprintf("e%d", id), Type: "order.created", AggregateID: key, Topic: topic, AppendedAt: s.now(),
	}}}
	return id
}

func (s *fakeStore) add(key, topic string) *Row {
	id := s.allocate(key, topic)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[id].visible = true
	return &s.rows[id].row
}

func (s *fakeStore) Lead(_ context.Context, owner string, lane int, ttl time.Duration) (Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.owner != owner || s.clean {
		if s.owner != "" && !s.clean && now.Before(s.expires) {
			return Lease{}, s.fails[askLead]
		}
		s.deaths++
		switch {
		case s.epoch == 0 || s.clean:
			s.deaths = 0
		case s.expires.Add(-ttl).Sub(s.taken) > LongLife*ttl:
			s.deaths = 1
		}
		s.epoch++
		s.owner, s.clean, s.taken = owner, false, now
	}
	s.expires = now.Add(ttl)
	return Lease{Held: true, Owner: owner, Lane: lane, Epoch: s.epoch, Expires: s.expires, Deaths: s.deaths}, s.fails[askLead]
}

func (s *fakeStore) fenced(l Lease) bool { return l.Epoch != s.epoch || s.clean }

func (s *fakeStore) Resign(_ context.Context, l Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fenced(l) {
		return settle.ErrFenced
	}
	s.clean = true
	return nil
}

func (s *fakeStore) Load(_ context.Context, l Lease) (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fenced(l) {
		return State{}, settle.ErrFenced
	}
	st := State{Checkpoint: s.check, ExtraPending: len(s.extra) > 0, CursorEvents: map[int64]string{}, MaxID: s.nextID, Controls: s.controls}
	st.Parked = s.parkedKeys()
	for _, r := range s.check.Readers {
		st.CursorEvents[r.Cursor] = ""
		if row := s.rows[r.Cursor]; row != nil && row.visible {
			st.CursorEvents[r.Cursor] = row.row.Event.ID
		}
	}
	for _, d := range s.delayed {
		if st.NextDelayed.IsZero() || d.Due.Before(st.NextDelayed) {
			st.NextDelayed = d.Due
		}
	}
	return st, s.fails[askLoad]
}

func (s *fakeStore) parkedKeys() []ParkedKey {
	var keys []ParkedKey
	for _, k := range slices.SortedFunc(maps.Keys(s.parked), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	}) {
		p := s.parked[k]
		keys = append(keys, ParkedKey{Destination: k[0], Key: k[1], Rows: len(p), HeadDue: p[0].nextAt, HeadDead: p[0].dead})
	}
	return keys
}

func (s *fakeStore) Poll(_ context.Context, q PollQuery) (Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := Page{Complete: true, Epoch: s.checkEpoch, Number: s.check.Number, Controls: s.controls.Version, NotDurable: s.notDurable}
	for id := int64(1); id <= s.nextID; id++ {
		r := s.rows[id]
		_, hole := slices.BinarySearch(q.Holes, id)
		if r == nil || !r.visible || !hole && (id <= q.After || q.UpTo != 0 && id > q.UpTo) {
			continue
		}
		if len(p.Rows) == q.MaxRows {
			p.Complete = false
			break
		}
		p.Rows = append(p.Rows, r.row)
	}
	return p, s.fails[askPoll]
}

func (s *fakeStore) Side(_ context.Context, q SideQuery) (SidePage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var p SidePage
	take := func(row Row) bool {
		p.More = len(p.Rows) == q.MaxRows
		if !p.More {
			p.Rows = append(p.Rows, row)
		}
		return !p.More
	}
	switch q.Side {
	case SideParked:
		for _, k := range s.parked[[2]string{q.Destination, q.Key}] {
			if k.dead || !take(s.withRow(k.row)) {
				break
			}
		}
	case SideDelayed:
		due := slices.SortedFunc(maps.Values(s.delayed), func(a, b Delay) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID)) })
		for _, d := range due {
			row := Row{ID: d.ID, Destination: d.Destination, Owed: s.owedDelayed[d.ID]}
			held := func(name string) bool { return slices.Contains(q.Held, name) }
			if row.Owed == nil && held(d.Destination) || row.Owed != nil && !slices.ContainsFunc(row.Owed, func(name string) bool { return !held(name) }) {
				continue
			}
			if d.Due.After(q.Now) || !take(s.withRow(row)) {
				p.Next = d.Due
				break
			}
		}
	default:
		for _, id := range slices.Sorted(maps.Keys(s.extra)) {
			row := s.withRow(Row{ID: id, MessageID: s.extra[id], Owed: s.owedExtra[id]})
			if id > q.After && !slices.Contains(q.Held, row.Event.Topic) && !take(row) {
				break
			}
		}
	}
	return p, s.fails[askSide]
}

// withRow joins a side table's row with the outbox.
func (s *fakeStore) withRow(row Row) Row {
	if r := s.rows[row.ID]; r != nil {
		row.Event, row.Defect = r.row.Event, r.row.Defect
	} else {
		row.Gone = true
	}
	return row
}

func (s *fakeStore) Commit(_ context.Context, l Lease, f Flush) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fails[askCommit]; err != nil {
		return err
	}
	if s.fenced(l) {
		return settle.ErrFenced
	}
	if l.Epoch == s.checkEpoch && f.Checkpoint.Number <= s.check.Number {
		return errors.New("checkpoint number is not new")
	}
	s.checkEpoch, s.check = l.Epoch, f.Checkpoint
	s.commits = append(s.commits, f)
	s.route()
	s.apply(f)
	s.checkPassed()
	return nil
}

func (s *fakeStore) apply(f Flush) {
	for _, r := range f.Sent {
		s.rows[r.ID].sent = true
		s.settle(r.ID, r.Destination)
		s.leaveShare(r.From, r.ID, r.Destination, r.Share)
		s.over(r.ID, r.Share)
	}
	for _, p := range f.Park {
		s.leaveShare(p.From, p.ID, p.Destination, p.Share)
		s.parkNo++
		k := [2]string{p.Destination, p.Key}
		if slices.ContainsFunc(s.parked[k], func(x fakeParked) bool { return x.row.ID == p.ID }) {
			s.errorf("id %d is parked twice", p.ID)
		}
		row := s.rows[p.ID].row
		row.Attempts, row.ParkNo, row.Suspect, row.MessageID = p.Attempts, s.parkNo, p.Suspect, p.MessageID
		s.parked[k] = append(s.parked[k], fakeParked{row: row, nextAt: p.NextAt, class: p.Class})
	}
	for _, a := range f.Attempts {
		if p := s.findParked(a.Destination, a.ID); p != nil {
			p.row.Attempts, p.row.Together, p.row.Suspect, p.nextAt = a.Attempts, a.Together, a.Suspect, a.NextAt
		} else {
			s.errorf("attempt of id %d, which is not parked", a.ID)
		}
	}
	for _, d := range f.Dead {
		p := s.findParked(d.Destination, d.ID)
		if p == nil {
			s.errorf("id %d dies and is not parked", d.ID)
			continue
		}
		p.dead = true
		s.dead[d.ID] = d
		if d.Unblock {
			s.settle(d.ID, d.Destination)
			s.leave(FromParked, d.ID, d.Destination)
		}
	}
	for _, d := range f.Delay {
		s.leaveShare(d.From, d.ID, d.Destination, d.Share)
		s.delayed[d.ID] = d
		if owed := s.owedDelayed[d.ID]; d.Share != nil && !slices.Contains(owed, d.Destination) {
			s.owedDelayed[d.ID] = append(owed, d.Destination)
		}
	}
	for _, id := range f.Cold {
		s.gap[id] = true
	}
	for _, k := range f.Skip {
		s.settle(k.ID, k.Destination)
		s.leaveShare(k.From, k.ID, k.Destination, k.Share)
		if s.over(k.ID, k.Share) {
			s.skipped[k.ID] = true
			s.passSkip(s.rows[k.ID].row.Event.ID)
		}
	}
}

func (s *fakeStore) leave(from Origin, id int64, destination string) {
	switch from {
	case FromExtra:
		delete(s.extra, id)
	case FromDelayed:
		delete(s.delayed, id)
	case FromParked:
		found := false
		for k, rows := range s.parked {
			n := len(rows)
			if k[0] != destination {
				continue
			}
			rows = slices.DeleteFunc(rows, func(p fakeParked) bool { return p.row.ID == id })
			found = found || len(rows) < n
			if s.parked[k] = rows; len(rows) == 0 {
				delete(s.parked, k)
			}
		}
		if !found {
			s.errorf("id %d leaves the parked and is not there", id)
		}
	}
}

func (s *fakeStore) findParked(destination string, id int64) *fakeParked {
	for k, rows := range s.parked {
		for i := range rows {
			if k[0] == destination && rows[i].row.ID == id {
				return &rows[i]
			}
		}
	}
	return nil
}

func (s *fakeStore) errorf(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

func (s *fakeStore) Owners(_ context.Context, before Evidence) (Evidence, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owners(before), s.fails[askOwners]
}

// Sweep lists rows that showed up behind cold holes.
func (s *fakeStore) Sweep(_ context.Context, l Lease, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, id := range slices.Sorted(maps.Keys(s.gap)) {
		if r := s.rows[id]; r != nil && r.visible && n < limit && !s.fenced(l) {
			delete(s.gap, id)
			s.extra[id] = ""
			n++
		}
	}
	return n, s.fails[askSweep]
}

func (s *fakeStore) Retain(_ context.Context, _ Lease, before time.Time, _ int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retains = append(s.retains, before)
	return 0, s.fails[askRetain]
}

func (s *fakeStore) Controls(context.Context) (Controls, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.controls
	c.Parked = s.parkedKeys()
	return c, s.fails[askControls]
}
