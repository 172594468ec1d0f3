package memory

import (
	"context"
	"slices"
	"sync"

	"github.com/settlemq/settle"
)

type groupKey struct{ group, topic string }

// membership is a group whose partitions the broker assigns: member i of n, in
// the order they joined, reads partitions i, i+n, … and the broker keeps the
// positions.
type membership struct {
	// reading is held, one slot each, by the member that reads a partition, so
	// that a new one starts only after the old one has ended.
	reading []chan struct{}

	mu      sync.Mutex
	members []*member
	done    []int64
}

func newMembership(partitions int) *membership {
	m := &membership{reading: make([]chan struct{}, partitions), done: make([]int64, partitions)}
	for i := range m.reading {
		m.reading[i] = make(chan struct{}, 1)
	}
	return m
}

// member is one Subscribe call. It is the settle.Ownership of its loop; its
// claims do not expire.
type member struct {
	group *membership
	name  string
}

func (m *membership) join(name string) *member {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := &member{group: m, name: name}
	m.members = append(m.members, one)
	return one
}

func (m *member) leave() {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	m.group.members = slices.DeleteFunc(m.group.members, func(other *member) bool { return other == m })
}

// Claim implements settle.Ownership. Epoch 0 says that the broker assigns.
func (m *member) Claim(_ context.Context, topic string, n int) ([]settle.Claim, error) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	mine := slices.Index(m.group.members, m)
	var claims []settle.Claim
	for p := mine; mine >= 0 && p < n; p += len(m.group.members) {
		claims = append(claims, settle.Claim{Partition: settle.Partition{Topic: topic, Number: p, Owner: m.name}})
	}
	return claims, nil
}

// RaiseFloor implements settle.Ownership; there is no floor to raise.
func (m *member) RaiseFloor(context.Context, settle.Partition, settle.Floor) error { return nil }

// take waits until no other member reads the partition, and returns where to
// go on.
func (m *member) take(ctx context.Context, n int) (position int64, ok bool) {
	select {
	case m.group.reading[n] <- struct{}{}:
	case <-ctx.Done():
		return 0, false
	}
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	return m.group.done[n], true
}

func (m *member) release(n int) { <-m.group.reading[n] }

func (m *member) advance(n int, position int64) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	m.group.done[n] = position
}

func (m *membership) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.done)
}
