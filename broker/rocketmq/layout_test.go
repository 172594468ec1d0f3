package rocketmq

import (
	"slices"
	"testing"
)

func some(broker string, n int) (all []queue) {
	for id := range n {
		all = append(all, queue{broker, id})
	}
	return all
}

func TestTheListThatNameServersKeepDecidesAndWhatIsBesideItIsReadBehind(t *testing.T) {
	l := layoutOf("b:2;a:1", some("a", 2), some("c", 1), layout{})
	want := []queue{{"b", 0}, {"b", 1}, {"a", 0}, {"a", 1}, {"c", 0}}
	if !slices.Equal(l.queues, want) || l.fixed != 3 || !l.ordered {
		t.Errorf("the layout is %+v", l)
	}
	for _, key := range []string{"k1", "k2", "k3", "k4"} {
		if n := l.partitionOf(key); n >= 3 {
			t.Errorf("key %s goes to queue %v, which is not in the list", key, l.queues[n])
		}
	}
}

func TestANodeThatIsAwayKeepsItsPlacesWithoutAListToo(t *testing.T) {
	both := layoutOf("", slices.Concat(some("b", 2), some("a", 2)), nil, layout{})
	less := layoutOf("", some("b", 2), some("b", 2), both)
	if !slices.Equal(less.queues, both.queues) || less.fixed != 4 || less.ordered {
		t.Errorf("the layout is %+v, was %+v", less, both)
	}
}

func TestWhatMayOnlyBeReadGetsNoKeys(t *testing.T) {
	l := layoutOf("", some("b", 2), slices.Concat(some("a", 1), some("b", 3)), layout{})
	want := []queue{{"b", 0}, {"b", 1}, {"a", 0}, {"b", 2}}
	if !slices.Equal(l.queues, want) || l.fixed != 2 {
		t.Errorf("the layout is %+v", l)
	}
}

// A topic's list is lost to a name server that was away when it was made: what is
// known is not given up for it.
func TestAListThatOneNameServerDoesNotHaveIsNotForgotten(t *testing.T) {
	before := layoutOf("b:2;a:1", nil, nil, layout{})
	now := layoutOf("", some("a", 1), nil, before)
	if !slices.Equal(now.queues, before.queues) || now.fixed != 3 || !now.ordered {
		t.Errorf("the layout is %+v, was %+v", now, before)
	}
}

func TestAListIsReadAsItIsWrittenAndNonsenseIsNone(t *testing.T) {
	of := slices.Concat(some("broker-a", 3), some("b:1", 2))
	if got, err := parseOrder(formatOrder(of)); err != nil || len(got) != len(of) {
		t.Errorf("%s is read as %v, %v", formatOrder(of), got, err)
	}
	for _, text := range []string{"a", "a:x", ":3", "a:-1", "a:99999999"} {
		if got, err := parseOrder(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
		if l := layoutOf(text, some("a", 2), nil, layout{}); l.ordered || l.fixed != 2 {
			t.Errorf("with %q as list the layout is %+v", text, l)
		}
	}
}
