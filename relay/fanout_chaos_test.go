package relay

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/settlemq/settle"
)

func TestUnderChaosEachDestinationGetsAllInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := fanned()
		cfg.BatchRows = rapid.IntRange(1, 8).Draw(rt, "batch")
		cfg.HoleAge, cfg.MaxIdle = 10*time.Second, time.Second
		cfg.Retry = settle.Backoff{Base: 10 * time.Millisecond, Max: time.Second, Attempts: 1000}
		cfg.CrashAttempts = 1000
		c := &chaos{world: newWorld(rt, cfg), rt: rt, hidden: map[string]int64{}, mood: map[string]int{}}
		for name, b := range map[string]*fakeBroker{"": c.broker, "archive": c.others["archive"]} {
			b.refuse = func(m settle.Message) error { return c.refuseAs(name+m.Event.Topic, m) }
			b.lostAck = func(m settle.Message) bool { return c.mood[name+m.Event.Topic] == moodLosesAnswers }
		}
		c.store.owners = func(Evidence) Evidence { return Evidence{Known: true, Clear: len(c.hidden) == 0} }
		rt.Repeat(map[string]func(*rapid.T){
			"insert":  func(*rapid.T) { c.insertTyped() },
			"insert2": func(*rapid.T) { c.insertTyped() },
			"reveal":  func(*rapid.T) { c.reveal() },
			"store":   func(*rapid.T) { c.storeCall() },
			"store2":  func(*rapid.T) { c.storeCall() },
			"store3":  func(*rapid.T) { c.storeCall() },
			"answer":  func(*rapid.T) { c.pubAnswer() },
			"answer2": func(*rapid.T) { c.pubAnswer() },
			"time": func(*rapid.T) {
				c.now = c.now.Add(time.Duration(rapid.SampledFrom([]int{1, 10, 100, 1000}).Draw(rt, "ms")) * time.Millisecond)
				c.step(Tick{})
			},
			"run": func(*rapid.T) { c.run(time.Duration(rapid.IntRange(1, 3000).Draw(rt, "ms")) * time.Millisecond) },
			"mood": func(*rapid.T) {
				c.mood[rapid.SampledFrom([]string{"a", "b", "archivea", "archiveb"}).Draw(rt, "topic")] = rapid.IntRange(0, moods-1).Draw(rt, "mood")
			},
			"late":   func(*rapid.T) { c.list() },
			"crash":  func(*rapid.T) { c.crash() },
			"zombie": func(*rapid.T) { c.zombieCommit() },
			"":       func(*rapid.T) { c.checkShared() },
		})
		c.heal()
		c.checkShared()
		for id := int64(1); id <= c.store.nextID; id++ {
			if c.store.rows[id] == nil {
				continue
			}
			for _, name := range c.store.goes[id] {
				if !c.store.doneAt[fmt.Sprint(id, name)] {
					rt.Fatalf("e%d was not sent to %s: %s", id, name, c.where(id))
				}
			}
			if !c.store.finished[id] {
				rt.Fatalf("no flush says that e%d is done, and %v have it", id, c.store.goes[id])
			}
		}
		if len(c.store.parked)+len(c.store.delayed)+len(c.store.extra) > 0 || c.m.parked > 0 || c.m.Stats(c.now).Behind > 0 {
			rt.Fatalf("left over: parked %v, delayed %v, extra %v, %d behind", c.store.parked, c.store.delayed, c.store.extra, c.m.Stats(c.now).Behind)
		}
	})
}

// insertTyped makes most of the events that are inserted shared ones.
func (c *chaos) insertTyped() {
	before := c.store.nextID
	c.insert()
	for id := before + 1; id <= c.store.nextID; id++ {
		if r := c.store.rows[id]; r != nil {
			r.row.Event.Type = rapid.SampledFrom([]string{"both.a", "both.b", "order.created", "audit.seen"}).Draw(c.rt, "type")
		}
	}
}

// list has a row sent once more that each destination has.
func (c *chaos) list() {
	for id := int64(1); id <= c.store.nextID; id++ {
		if c.store.finished[id] && !c.listed[id] && c.store.rows[id] != nil {
			if c.listed == nil {
				c.listed = map[int64]bool{}
			}
			c.listed[id] = true
			c.store.extra[id] = fmt.Sprintf("e%d#1", id)
			c.store.finished[id] = false
			for _, name := range c.store.goes[id] {
				delete(c.store.doneAt, fmt.Sprint(id, name))
			}
			c.store.control(func(*Controls) {})
			return
		}
	}
}

func (c *chaos) refuseAs(mood string, m settle.Message) error {
	as := m
	e := *m.Event
	e.Topic = mood
	as.Event = &e
	return c.refuse(as)
}

func (c *chaos) checkShared() {
	if len(c.store.wrong) > 0 {
		c.rt.Fatalf("%v", c.store.wrong)
	}
	one := *c.world
	for _, b := range []*fakeBroker{c.broker, c.others["archive"]} {
		one.broker = &fakeBroker{log: b.log}
		if wrong := keyInversions(&one); len(wrong) > 0 {
			c.rt.Fatalf("out of order: %v", wrong)
		}
	}
}
