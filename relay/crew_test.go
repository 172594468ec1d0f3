package relay

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

func TestAShareOfTheLanesIsRoundedUp(t *testing.T) {
	for _, c := range [][3]int{{1, 1, 1}, {1, 3, 1}, {4, 1, 4}, {4, 2, 2}, {4, 3, 2}, {5, 2, 3}, {4, 0, 4}} {
		if got := fair(c[0], c[1]); got != c[2] {
			t.Errorf("%d lanes among %d: %d each, want %d", c[0], c[1], got, c[2])
		}
	}
}

func TestALanesLimitOfARateIsItsPart(t *testing.T) {
	c := NewCrew(nil, nil, Config{RateLimit: map[string]float64{"a": 100}})
	if got := c.config(&post{Lane: Lane{Of: 4}}).RateLimit["a"]; got != 25 {
		t.Errorf("one of four may send %v of 100 a second", got)
	}
	if got := c.config(&post{Lane: Lane{Of: 1}}).RateLimit["a"]; got != 100 {
		t.Errorf("the only one may send %v of 100 a second", got)
	}
}

func TestACrewOfAStoreWithOneLaneIsOneRelay(t *testing.T) {
	s, b := newFakeStore(time.Now), &fakeBroker{}
	s.add("k", "a")
	sent := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	c := NewCrew(func() Store { return s }, b, Config{Logger: quiet(), OnSent: func([]Sent) { close(sent) }})
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	<-sent
	if all := c.Lanes(); len(all) != 1 || !all[0].Leading || all[0].Of != 1 {
		t.Errorf("it runs %+v", all)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := c.Stats(); got.Published != 1 || got.Leading {
		t.Errorf("after its end the figures are %+v", got)
	}
}

func TestACrewEndsWithWhatARelayEndsFor(t *testing.T) {
	s := newFakeStore(time.Now)
	s.check = Checkpoint{Number: 1, Readers: []Reader{{Cursor: 5}}} // the table has given no id
	err := NewCrew(func() Store { return s }, &fakeBroker{}, Config{Logger: quiet()}).Run(t.Context())
	if !errors.Is(err, settle.ErrNewGeneration) {
		t.Errorf("it ends with %v", err)
	}
}

// changing is a store whose table is divided anew as soon as its lane is led.
type changing struct {
	*fakeStore
	mu    sync.Mutex
	lanes []Lane
}

func (c *changing) Lanes(context.Context, string, time.Duration) ([]Lane, int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lanes, 1, nil
}

// Resign ends the lane: the next is to be run.
func (c *changing) Resign(ctx context.Context, l Lease) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.Ended {
		c.lanes = []Lane{{Number: 1, Generation: 2, Index: 0, Of: 2}, {Number: 2, Generation: 2, Index: 1, Of: 2}}
	}
	return nil
}

func (c *changing) Lead(ctx context.Context, owner string, lane int, ttl time.Duration) (Lease, error) {
	return Lease{Held: true, Owner: owner, Lane: lane, Epoch: int64(lane) + 1, Expires: time.Now().Add(ttl)}, nil
}

func (c *changing) Load(ctx context.Context, l Lease) (State, error) {
	return State{Controls: Controls{Divided: l.Lane == 0}}, nil
}

func (c *changing) Commit(context.Context, Lease, Flush) error { return nil }

func (c *changing) Poll(context.Context, PollQuery) (Page, error) { return Page{Complete: true}, nil }

func TestACrewRunsTheLanesThatFollowOneThatHasEnded(t *testing.T) {
	s := &changing{fakeStore: newFakeStore(time.Now), lanes: []Lane{{Of: 1, Generation: 1}}}
	ctx, stop := context.WithCancel(t.Context())
	c := NewCrew(func() Store { return s }, &fakeBroker{}, Config{Logger: quiet()})
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		all := c.Lanes()
		if len(all) == 2 && all[0].Number == 1 && all[1].Number == 2 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("after a minute it runs %+v", all)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
