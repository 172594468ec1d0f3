package rabbitmq

import (
	"slices"
	"testing"
)

func TestOfEachKeyOneMessageMayBeSentAtATime(t *testing.T) {
	keys := []string{"a", "b", "a", "c", "a", "b"}
	s := newStrands(len(keys), func(i int) string { return keys[i] })
	var sent []int
	all := func() {
		for i, ok := s.next(); ok; i, ok = s.next() {
			sent = append(sent, i)
		}
	}
	all()
	if !slices.Equal(sent, []int{0, 1, 3}) {
		t.Fatalf("at first %v may be sent", sent)
	}
	s.held("a")
	s.held("c")
	all()
	if !slices.Equal(sent, []int{0, 1, 3, 2}) {
		t.Fatalf("when the first of a and of c are held, %v may be sent", sent)
	}
	if behind := s.failed("b"); !slices.Equal(behind, []int{5}) {
		t.Errorf("behind the first of b, %v fail", behind)
	}
	s.held("a")
	all()
	if !slices.Equal(sent, []int{0, 1, 3, 2, 4}) {
		t.Errorf("in the end %v may be sent", sent)
	}
}

func TestMembersShareAllPartitions(t *testing.T) {
	for n := 1; n < 20; n++ {
		for members := 0; members < 25; members++ {
			if share := shareOf(n, members); share*max(members, 1) < n || (share-1)*max(members, 1) >= n {
				t.Errorf("%d members of %d partitions have up to %d each", members, n, share)
			}
		}
	}
}
