package brokertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/settlemq/settle"
)

// ledger is what a consumer group keeps in its database: leases, epochs and
// floors of partitions, and the records it has applied. One lock stands for
// the transactions.
type ledger struct {
	ttl time.Duration

	mu      sync.Mutex
	changed chan struct{}
	leases  map[int]*lease
	seen    map[string]time.Time // members by their last claim
	applied []applied
	// broken is the first breach of the contract that a delivery showed.
	broken []string
	// refuse makes claims fail, as a database that is down does.
	refuse bool
}

type lease struct {
	owner   string
	epoch   int64
	expires time.Time
	floor   settle.Floor
	// active counts deliveries in flight, per epoch: an owner that was fenced
	// may overlap with the next.
	active map[int64]int
}

// applied is a record that the group has done.
type applied struct {
	member    string
	partition int
	record    settle.Record
}

func newLedger(ttl time.Duration) *ledger {
	return &ledger{ttl: ttl, changed: make(chan struct{}), leases: map[int]*lease{}, seen: map[string]time.Time{}}
}

// touch wakes who waits for a change. Its caller holds the lock.
func (l *ledger) touch() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *ledger) lease(n int) *lease {
	if l.leases[n] == nil {
		l.leases[n] = &lease{active: map[int64]int{}}
	}
	return l.leases[n]
}

// breach records that the contract was broken.
func (l *ledger) breach(format string, v ...any) {
	l.broken = append(l.broken, fmt.Sprintf(format, v...))
	l.touch()
}

// owner is one member's settle.Ownership.
type owner struct {
	l    *ledger
	name string
}

// Claim implements settle.Ownership: it renews, gives up what is over the fair
// share, takes what is free or expired.
func (o owner) Claim(_ context.Context, topic string, n int) ([]settle.Claim, error) {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	if o.l.refuse {
		return nil, errors.New("the ledger is down")
	}
	now := time.Now()
	o.l.seen[o.name] = now
	members := 0
	for _, at := range o.l.seen {
		if now.Sub(at) < o.l.ttl {
			members++
		}
	}
	share := (n + members - 1) / members
	var claims []settle.Claim
	for _, mine := range []bool{true, false} { // what is ours first
		for p := range n {
			ls := o.l.lease(p)
			if (ls.owner == o.name) != mine || !mine && now.Before(ls.expires) {
				continue
			}
			if len(claims) == share {
				if mine {
					ls.owner, ls.expires = "", now
				}
				continue
			}
			if !mine {
				ls.owner = o.name
				ls.epoch++
			}
			ls.expires = now.Add(o.l.ttl)
			claims = append(claims, settle.Claim{
				Partition: settle.Partition{Topic: topic, Number: p, Owner: o.name, Epoch: ls.epoch},
				Floor:     ls.floor, Expires: ls.expires,
			})
		}
	}
	o.l.touch()
	return claims, nil
}

// RaiseFloor implements settle.Ownership.
func (o owner) RaiseFloor(_ context.Context, p settle.Partition, to settle.Floor) error {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	ls := o.l.lease(p.Number)
	if ls.owner != o.name || ls.epoch != p.Epoch {
		return settle.ErrFenced
	}
	if to.Position <= ls.floor.Position {
		o.l.breach("the floor of partition %d was raised from %d to %d", p.Number, ls.floor.Position, to.Position)
	}
	ls.floor = to
	o.l.touch()
	return nil
}

// enter begins a delivery and checks what every delivery promises.
func (l *ledger) enter(member string, leased bool, p settle.Partition, records []settle.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ls := l.lease(p.Number)
	if ls.active[p.Epoch]++; ls.active[p.Epoch] > 1 {
		l.breach("partition %d is delivered twice at once", p.Number)
	}
	switch {
	case len(records) == 0:
		l.breach("partition %d: a delivery without records", p.Number)
	case leased && p.Epoch == 0:
		l.breach("partition %d is delivered to %s without an epoch", p.Number, member)
	case leased && p.Generation == "":
		l.breach("partition %d is delivered without a generation", p.Number)
	}
	for i, r := range records {
		if i > 0 && r.Position <= records[i-1].Position {
			l.breach("partition %d: position %d comes after %d", p.Number, r.Position, records[i-1].Position)
		}
		if (r.Event == nil) == (r.DecodeErr == nil) {
			l.breach("position %d has both or none of an event and a decode error", r.Position)
		}
		if r.At.Partition != p.Number || r.At.Topic != p.Topic {
			l.breach("position %d was found at %v, delivered as partition %d of %s", r.Position, r.At, p.Number, p.Topic)
		}
	}
}

func (l *ledger) leave(p settle.Partition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease(p.Number).active[p.Epoch]--
}

// commit applies records and moves the floor, if the member still owns the
// partition: the transaction of a consumer.
func (l *ledger) commit(member string, leased bool, p settle.Partition, records []settle.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	ls := l.lease(p.Number)
	if leased && (ls.owner != member || ls.epoch != p.Epoch) {
		return settle.ErrFenced
	}
	last := records[len(records)-1]
	if leased {
		if first := records[0].Position; first <= ls.floor.Position {
			l.breach("partition %d: position %d was delivered again although the floor is %d", p.Number, first, ls.floor.Position)
		}
		ls.floor = settle.Floor{Generation: p.Generation, Position: last.Position}
		if last.Event != nil {
			ls.floor.EventID = last.Event.ID
		}
	}
	for _, r := range records {
		l.applied = append(l.applied, applied{member: member, partition: p.Number, record: r})
	}
	l.touch()
	return nil
}

// steal gives a partition to somebody else, as a takeover does.
func (l *ledger) steal(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ls := l.lease(n)
	ls.owner, ls.epoch, ls.expires = "thief", ls.epoch+1, time.Now().Add(time.Hour)
}

func (l *ledger) setFloor(n int, f settle.Floor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease(n).floor = f
}

func (l *ledger) floor(n int) settle.Floor {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease(n).floor
}

func (l *ledger) setRefuse(refuse bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = refuse
}

// all returns a copy of what was applied.
func (l *ledger) all() []applied {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.applied)
}
