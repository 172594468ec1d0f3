package rocketmq

import (
	"context"
	"fmt"

	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

// Leads returns how many of a topic's queues each node has that is there, by its
// host and port, 0 of slaves, and whether every queue has its master and every
// master the slaves that it counts on. The map of management APIs is RabbitMQ's
// alone.
func (t *Tap) Leads(ctx context.Context, topic string, _ map[string]string) (leads map[string]int, whole bool, err error) {
	r, err := t.b.routes.ask(ctx, topic)
	if err != nil {
		return nil, false, fmt.Errorf("look at the masters of topic %q: %w", topic, err)
	}
	var nodes []remoting.Node
	err = t.b.routes.servers(ctx, func(ctx context.Context, server string) (err error) {
		nodes, err = t.b.wire.Cluster(ctx, server)
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("look at the masters of topic %q: %w", topic, err)
	}
	leads, whole = map[string]int{}, true
	slaves := map[string]int{}
	for _, n := range nodes {
		if _, err := t.b.wire.Settings(ctx, n.Addr); err != nil {
			whole = false // name servers know it a while longer than it is there
			continue
		}
		leads[n.Addr] = 0
		if !n.Master() {
			slaves[n.Name]++
		}
	}
	for _, q := range r.queues {
		addr, is := r.master(q)
		if _, there := leads[addr]; !is || !there {
			whole = false
			continue
		}
		leads[addr]++
	}
	for name, addr := range r.masters {
		whole = whole && t.inPlace(ctx, addr, slaves[name])
	}
	return leads, whole, nil
}

// inPlace reports whether the slaves of a master are with it: those that are there,
// and as many as it waits for.
func (t *Tap) inPlace(ctx context.Context, master string, slaves int) bool {
	copies, err := t.b.wire.Replication(ctx, master)
	if err != nil {
		return false
	}
	settings, err := t.b.wire.Settings(ctx, master)
	if err != nil {
		return false
	}
	least, err := nodeSeen{settings: settings}.waitsFor()
	if settings["brokerRole"] == roleAsync || err != nil {
		least = 1
	}
	return copies.InSync >= max(slaves, int(least)-1)
}
