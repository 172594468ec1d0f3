package server

import (
	"context"
	"errors"
	"sync"

	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/dial"
)

// probeBridges asks the broker of each bridge, as Probe does those of sources.
// It makes no ladder and reads no letter.
func (c Config) probeBridges(ctx context.Context) []Probed {
	type named struct{ source, group string }
	var all []named
	for _, source := range c.names() {
		for _, group := range c.Sources[source].bridges() {
			all = append(all, named{source, group})
		}
	}
	found := make([]Probed, len(all))
	var group sync.WaitGroup
	for i, of := range all {
		group.Go(func() {
			found[i] = probed(c, of.source, "bridge "+of.group, c.Sources[of.source].probeBridge(ctx, of.group))
		})
	}
	group.Wait()
	return found
}

func (c SourceConfig) probeBridge(ctx context.Context, group string) answer {
	b, err := dial.Bridge(ctx, c.bridgeBroker(group), dial.BrokerConfig{})
	if err != nil {
		return answer{err: err}
	}
	of := c.Bridges[group]
	said := "its broker answers"
	if of.Ladder.Topic != "" {
		said += "; serve makes its ladder where it is missing"
	} else {
		_, err = b.Source(of.group(group, bridge.Group{}))
	}
	return answer{said, errors.Join(err, b.Close())}
}
