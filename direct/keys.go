package direct

import (
	"context"
	"sync"
)

// keys lets one at a time have a key. Those that nobody has or waits for take no
// memory.
type keys struct {
	mu  sync.Mutex
	all map[string]*key
}

type key struct {
	free chan struct{} // holds one when nobody has it
	used int           // by how many it is had or waited for
}

func newKeys() *keys { return &keys{all: map[string]*key{}} }

// take waits for a key until ctx is done, and returns what gives it back.
func (k *keys) take(ctx context.Context, name string) (release func(), err error) {
	k.mu.Lock()
	one := k.all[name]
	if one == nil {
		one = &key{free: make(chan struct{}, 1)}
		one.free <- struct{}{}
		k.all[name] = one
	}
	one.used++
	k.mu.Unlock()
	leave := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if one.used--; one.used == 0 {
			delete(k.all, name)
		}
	}
	select {
	case <-one.free:
		return func() { one.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
