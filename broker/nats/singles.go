package nats

import (
	"context"

	"github.com/settlemq/settle"
)

// window is how many single messages are in flight: more only add latency.
const window = 16

// singles publishes part one by one, at most one unacknowledged message per
// key. What is behind a failed message of its key is not sent. When the topic
// or the broker fails, nothing more is sent at all, and the error is returned.
func (p *publication) singles(ctx context.Context, t *topic, part []outgoing) (down error) {
	type outcome struct {
		at  int
		got answer
		err error
	}
	next, ready := chains(part)
	done := make(chan outcome, window)
	failChain := func(i int, why error) {
		p.fail(part[i].index, why)
		for i := next[i]; i > 0; i = next[i] {
			p.fail(part[i].index, heldBack(why))
		}
	}
	for flying := 0; flying > 0 || len(ready) > 0 && down == nil; {
		for flying < window && len(ready) > 0 && down == nil {
			i := ready[0]
			ready = ready[1:]
			m, _, err := p.encode(t, part[i], nil)
			if err != nil {
				failChain(i, err)
				continue
			}
			flying++
			go func() { // ends: ask has a deadline, and done has room
				got, err := p.b.ask(ctx, t, m)
				done <- outcome{i, got, err}
			}()
		}
		if flying == 0 {
			continue
		}
		o := <-done
		flying--
		if o.err == nil {
			p.receipts[part[o.at].index] = settle.Receipt{At: t.at(part[o.at].subject, o.got.Seq), Duplicate: o.got.Duplicate}
			if next[o.at] > 0 {
				ready = append(ready, next[o.at])
			}
			continue
		}
		why := classify(o.err)
		failChain(o.at, why)
		if why.Scope != settle.ScopeRecord {
			down = why
		}
	}
	if down != nil {
		p.notSent(part, down)
	}
	return down
}

// chains links the messages of each key: next[i] is the one after i, 0 for
// none; heads are the first ones.
func chains(part []outgoing) (next, heads []int) {
	next = make([]int, len(part))
	last := make(map[string]int, len(part))
	for i, o := range part {
		if before, ok := last[o.key]; ok {
			next[before] = i
		} else {
			heads = append(heads, i)
		}
		last[o.key] = i
	}
	return next, heads
}
