package consumer

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// assigned passes events to a partition that the broker assigns.
func (r *rig) assigned(id DeliveryID, p int, events ...*settle.Event) {
	r.step(Delivered{id, settle.Partition{Topic: "topic", Number: p}, records(1, events...)})
}

// die ends the process without a word, in the middle of what is pending: what
// it was to write down is. Another one starts when it has been taken for dead,
// or at once.
func (r *rig) die(cfg Config, wait time.Duration) {
	for _, c := range r.pending {
		r.hold(c)
	}
	r.pending, r.wake = nil, time.Time{}
	r.now = r.now.Add(wait)
	r.lives++
	r.member = fmt.Sprint("life ", r.lives)
	r.m = NewMachine("g", map[string]HandlerRule{"t": {}}, cfg)
	r.step(Tick{})
}

func TestAnEventThatKillsItsProcessBecomesADeadLetterWhereTheBrokerAssignsPartitions(t *testing.T) {
	for _, wait := range []time.Duration{time.Minute, 300 * time.Millisecond} {
		cfg := Config{Retry: settle.Backoff{Attempts: 3}}
		r := newRig(t, cfg, "t")
		r.manual = true
		all := []*settle.Event{event("a", 1), event("b", 1), event("c", 1), event("d", 1)}
		deaths := 0
		for id := DeliveryID(1); id < 40; id++ {
			r.assigned(id, 0, all...)
			for died := false; !died; {
				if len(r.pending) == 0 {
					r.pass(20 * time.Second)
				}
				if len(r.pending) == 0 {
					break
				}
				for _, it := range r.pending[0].Work.Items {
					if it.Record.Event.ID == "b1" && it.Intent == settle.IntentHandle {
						died = true
					}
				}
				if died {
					deaths++
					r.die(cfg, wait)
					break
				}
				r.finish()
			}
			if _, dead, there := r.in.row("b1"); there && dead {
				break
			}
		}
		r.wantRow("b1", 3, settle.ClassCrashLoop, true)
		got := r.in.applied()
		slices.Sort(got)
		if !slices.Equal(got, []string{"a1", "c1", "d1"}) {
			t.Errorf("effects are %v", got)
		}
		// Two of unknown cause, three attempts, and what dies before its lease has run out.
		if most := 2 + 3 + int(2*time.Second/wait) + 1; deaths < 4 || deaths > most {
			t.Errorf("with %v between deaths it killed %d processes, at most %d wanted", wait, deaths, most)
		}
	}
}

func TestWhatIsInHandIsWrittenDownOnlyWhileMembersDie(t *testing.T) {
	cfg := Config{}
	r := newRig(t, cfg, "t")
	r.member = "steady"
	r.assigned(1, 0, event("a", 1))
	if r.in.holds != 1 {
		t.Errorf("a member that has just come wrote down %d works; it can't know yet who died before, want 1", r.in.holds)
	}
	r.pass(5 * time.Second)
	for i := range 5 {
		r.assigned(DeliveryID(2+i), 0, event("b", i+1))
	}
	if r.in.holds != 1 {
		t.Errorf("while all live %d works are written down", r.in.holds-1)
	}
	r.in.attendance["another"] = r.now // it dies
	r.pass(5 * time.Second)
	r.wantNote("members", "dying")
	r.assigned(10, 0, event("c", 1))
	if r.in.holds != 2 || !slices.Equal(r.in.hands["steady"], []string{"c1"}) {
		t.Errorf("after a death %d works are written down, in hand is %v", r.in.holds-1, r.in.hands["steady"])
	}
	delete(r.in.attendance, "another")
	r.pass(5 * time.Second)
	r.wantNote("members", "steady")
	r.assigned(11, 0, event("d", 1))
	if r.in.holds != 2 {
		t.Error("it goes on to write down when the death is forgotten")
	}
	r.wantAcked(1, 2, 3, 4, 5, 6, 10, 11)
}

func TestAfterOneDeathNothingIsSuspectAndAfterTwoOnlyWhatWasInHand(t *testing.T) {
	r := newRig(t, Config{}, "t")
	r.member = "steady"
	r.assigned(1, 0, event("a", 1))
	r.in.attendance["dead 1"], r.in.hands["dead 1"] = r.now, []string{"b1"}
	r.pass(5 * time.Second)
	r.assigned(2, 0, event("b", 1))
	r.wantEffects("a1", "b1")
	r.in.attendance["dead 2"], r.in.hands["dead 2"] = r.now, []string{"c1", "b1"}
	r.pass(5 * time.Second)
	var alone []string
	r.handle = func(e *settle.Event) error {
		if it, _, parked := rowUnlocked(r.in, e.ID); parked && it.Attempt == 1 {
			alone = append(alone, e.ID)
		}
		return nil
	}
	r.assigned(3, 1, event("b", 1), event("c", 1), event("d", 1))
	r.pass(5 * time.Second)
	r.wantAcked(1, 2, 3)
	r.wantEffects("a1", "b1", "d1", "c1")
	if !slices.Equal(alone, []string{"c1"}) {
		t.Errorf("tried alone, with the attempt written first, were %v, want c1", alone)
	}
}

func TestNothingIsHandledBeforeItIsKnownWhoDied(t *testing.T) {
	m := NewMachine("g", map[string]HandlerRule{"t": {}}, Config{})
	now := epoch
	step := func(in Input) (found []Command) { return slices.Clone(m.Step(now, in)) }
	step(Tick{})
	step(ControlsLoaded{})
	step(DueLoaded{})
	asked := false
	for _, c := range step(Delivered{1, settle.Partition{Topic: "topic"}, records(1, event("a", 1))}) {
		if _, is := c.(Apply); is {
			t.Fatal("it is handled at once")
		}
		_, is := c.(Attend)
		asked = asked || is
	}
	if !asked {
		t.Fatal("nobody is asked")
	}
	applied := false
	for _, c := range step(Attended{Departed: settle.Departed{Deaths: 2, InHand: []string{"a1"}}}) {
		if c, is := c.(Apply); is {
			applied = c.Work.Items[0].Intent == settle.IntentPark && c.Work.Items[0].Class == settle.ClassSuspect
		}
	}
	if !applied {
		t.Error("what a member had in hand that died is not parked")
	}
}
