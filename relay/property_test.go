package relay

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/settlemq/settle"
)

// chaos does to a world what the field does to a relay.
type chaos struct {
	*world
	rt     *rapid.T
	hidden map[string]int64 // key to the id of its open transaction
	zombie []Commit         // what dead processes had on their way
	mood   map[string]int   // how the broker treats a topic
	listed map[int64]bool   // sent once more
}

const (
	moodFine = iota
	moodSilent
	moodLosesAnswers
	moodClosed
	moodRefusesSome
	moods
)

func (c *chaos) insert() {
	topic := rapid.SampledFrom([]string{"a", "b"}).Draw(c.rt, "topic")
	key := rapid.SampledFrom([]string{"k1", "k2", "k3", "k4"}).Draw(c.rt, "key")
	if c.hidden[key] != 0 {
		return // the key's lock is held by an open transaction
	}
	switch rapid.IntRange(0, 9).Draw(c.rt, "how") {
	case 0:
		c.hidden[key] = c.store.allocate(key, topic)
	case 1:
		delete(c.store.rows, c.store.allocate(key, topic)) // rolled back
	case 2:
		c.store.add("delayed", topic).Event.NotBefore = c.now.Add(15 * time.Second)
	default:
		for range rapid.IntRange(1, 8).Draw(c.rt, "n") {
			c.store.add(key, topic)
		}
	}
	c.step(Woken{})
}

func (c *chaos) reveal() {
	for _, key := range []string{"k1", "k2", "k3", "k4"} {
		if id := c.hidden[key]; id != 0 {
			c.store.rows[id].visible = true
			delete(c.hidden, key)
			return
		}
	}
}

func (c *chaos) storeCall() {
	if len(c.calls) == 0 {
		return
	}
	switch rapid.IntRange(0, 19).Draw(c.rt, "store") {
	case 0: // it fails and nothing happened
		cmd := c.calls[0]
		c.calls = c.calls[1:]
		c.step(Failed{Command: cmd, Err: errors.New("no connection")})
	case 1: // it happened and the answer is lost
		cmd := c.calls[0]
		if commit, ok := cmd.(Commit); ok {
			c.calls = c.calls[1:]
			_ = c.store.Commit(context.Background(), commit.Lease, commit.Flush)
			c.step(Failed{Command: cmd, Err: errors.New("answer lost")})
			return
		}
		c.call()
	default:
		c.call()
	}
}

func (c *chaos) pubAnswer() {
	if len(c.pubs) > 0 {
		c.answer(rapid.IntRange(0, len(c.pubs)-1).Draw(c.rt, "batch"))
	}
}

func (c *chaos) crash() {
	for _, cmd := range c.calls {
		if commit, ok := cmd.(Commit); ok {
			c.zombie = append(c.zombie, commit)
		}
	}
	for _, p := range c.pubs { // the broker may have had it
		if rapid.Bool().Draw(c.rt, "arrived") {
			c.at(p.Broker).Publish(context.Background(), p.Messages)
		}
	}
	c.kill()
}

func (c *chaos) zombieCommit() {
	if len(c.zombie) == 0 {
		return
	}
	z := c.zombie[0]
	c.zombie = c.zombie[1:]
	if z.Lease.Epoch != c.store.epoch {
		if err := c.store.Commit(context.Background(), z.Lease, z.Flush); !errors.Is(err, settle.ErrFenced) {
			c.rt.Fatalf("a zombie's commit gave %v", err)
		}
	}
}

func (c *chaos) control() {
	c.store.control(func(ctl *Controls) {
		ctl.Rows = nil
		switch rapid.IntRange(0, 4).Draw(c.rt, "pause") {
		case 0:
			ctl.Rows = []settle.Control{{Kind: "topic", Name: "a"}}
		case 1:
			ctl.Rows = []settle.Control{{Kind: "key", Name: "k1"}}
		case 2:
			ctl.Rows = []settle.Control{{Kind: "relay"}}
		}
	})
}

func (c *chaos) refuse(m settle.Message) error {
	switch c.mood[m.Event.Topic] {
	case moodSilent:
		return errNoAnswer
	case moodClosed:
		return &settle.PublishError{Scope: settle.ScopeTopic, Err: errNoAnswer}
	case moodRefusesSome:
		if m.Event.AggregateID == "k2" || m.Event.AggregateID == "k3" {
			return &settle.PublishError{Scope: settle.ScopeRecord, Err: errors.New("refused")}
		}
	}
	return nil
}

func (c *chaos) check() {
	if len(c.store.wrong) > 0 {
		c.rt.Fatalf("%v", c.store.wrong)
	}
	if wrong := keyInversions(c.world); len(wrong) > 0 {
		c.rt.Fatalf("out of order: %v", wrong)
	}
	// Two topics: each a batch in flight, a full queue, a page; and side pages.
	if n, most := c.m.Stats(c.now).Pending, 2*5*c.cfg.BatchRows+2*c.cfg.BatchRows; n > most {
		c.rt.Fatalf("%d rows in memory, at most %d wanted", n, most)
	}
}

func (c *chaos) heal() {
	for len(c.hidden) > 0 {
		c.reveal()
	}
	c.mood = map[string]int{}
	c.store.control(func(ctl *Controls) { ctl.Rows = nil })
	c.run(10 * time.Minute)
}

func TestUnderChaosNothingIsLostAndKeysKeepTheirOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := Config{
			BatchRows: rapid.IntRange(1, 8).Draw(rt, "batch"), HoleAge: 10 * time.Second, MaxIdle: time.Second,
			Retry: settle.Backoff{Base: 10 * time.Millisecond, Max: time.Second, Attempts: 1000},
			// A process is killed far more often here than events kill it.
			CrashAttempts: 1000,
		}
		c := &chaos{world: newWorld(rt, cfg), rt: rt, hidden: map[string]int64{}, mood: map[string]int{}}
		c.broker.refuse = c.refuse
		c.broker.lostAck = func(m settle.Message) bool { return c.mood[m.Event.Topic] == moodLosesAnswers }
		c.store.owners = func(Evidence) Evidence { return Evidence{Known: true, Clear: len(c.hidden) == 0} }
		rt.Repeat(map[string]func(*rapid.T){
			"insert":  func(*rapid.T) { c.insert() },
			"insert2": func(*rapid.T) { c.insert() },
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
				c.mood[rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "topic")] = rapid.IntRange(0, moods-1).Draw(rt, "mood")
			},
			"crash":  func(*rapid.T) { c.crash() },
			"zombie": func(*rapid.T) { c.zombieCommit() },
			"pause":  func(*rapid.T) { c.control() },
			"":       func(*rapid.T) { c.check() },
		})
		c.heal()
		c.check()
		for id := int64(1); id <= c.store.nextID; id++ {
			if r := c.store.rows[id]; r != nil && !r.sent {
				rt.Fatalf("e%d of key %s was not sent: %s", id, r.row.Event.AggregateID, c.where(id))
			}
		}
		if len(c.store.parked)+len(c.store.delayed)+len(c.store.extra) > 0 || c.m.parked > 0 {
			rt.Fatalf("left over: parked %v, delayed %v, extra %v", c.store.parked, c.store.delayed, c.store.extra)
		}
	})
}

// where says what is known of an event, for a person who reads a failure.
func (c *chaos) where(id int64) string {
	return fmt.Sprintf("parked %v, delayed %v, extra %v, gap %v, checkpoint %+v", c.store.parked, c.store.delayed, c.store.extra, c.store.gap[id], c.store.check)
}
