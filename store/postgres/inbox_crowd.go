package postgres

import (
	"sync"
	"time"
)

// crowd remembers which groups' transactions get into deadlocks. One that holds
// the rows of many events until its end meets others that hold them in another
// order, and each time the server lets all of them wait for its deadlock_timeout
// before it ends one. Such a group's events are done one by one for a while.
type crowd struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// crowdTime is for how long a group is done one by one after a deadlock.
const crowdTime = 30 * time.Second

func (c *crowd) met(group string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until == nil {
		c.until = map[string]time.Time{}
	}
	c.until[group] = now.Add(crowdTime)
}

func (c *crowd) meets(group string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	until, known := c.until[group]
	if known && !now.Before(until) {
		delete(c.until, group)
	}
	return known && now.Before(until)
}
