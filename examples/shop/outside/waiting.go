package outside

import (
	"context"
	"time"
)

// pause waits for a delay, not longer than a client or the server.
func (d *desk) pause(ctx context.Context, delay time.Duration) {
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-d.closing:
	}
}

// hang returns when a client has left, the rule has ended, the server ends, or
// after a minute.
func (d *desk) hang(ctx context.Context, r rule, p posting) {
	longest := time.NewTimer(maxHang)
	defer longest.Stop()
	end := make(<-chan time.Time)
	if !r.until.IsZero() {
		t := time.NewTimer(time.Until(r.until))
		defer t.Stop()
		end = t.C
	}
	for {
		d.mu.Lock()
		holds, changed := d.conduct.holds(time.Now(), r.id, p.customerID), d.changed
		d.mu.Unlock()
		if !holds {
			return
		}
		select {
		case <-changed:
		case <-end:
			return
		case <-longest.C:
			return
		case <-ctx.Done():
			return
		case <-d.closing:
			return
		}
	}
}
