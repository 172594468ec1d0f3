package main

import (
	"context"
	"fmt"

	"github.com/settlemq/settle"
)

// publishSettle is Settle's adapter as a relay uses it: a call with as many
// events as a page has, and the next one when it has returned.
func publishSettle(open func(ctx context.Context, url string) (settle.Broker, error)) way {
	return way{name: "settle", title: "Settle Publisher, 1,000 events a call", run: func(ctx context.Context, t task) error {
		b, err := open(ctx, t.URL)
		if err != nil {
			return err
		}
		defer func() { _ = b.Close() }()
		for rest := t.messages(); len(rest) > 0; {
			n := min(1000, len(rest))
			for i, r := range b.Publish(ctx, rest[:n]) {
				if r.Err != nil {
					return fmt.Errorf("publish: %w", r.Err)
				}
				if err := t.meter.count(rest[i].ID); err != nil {
					return err
				}
			}
			rest = rest[n:]
		}
		return nil
	}}
}
