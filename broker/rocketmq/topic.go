package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

// topic returns the route of a topic, and makes it where that is asked for. An error
// is a *settle.PublishError.
func (b *Broker) topic(ctx context.Context, name string) (*route, error) {
	if why := badTopic(name); why != "" {
		return nil, noTopic(why)
	}
	b.mu.Lock()
	done := b.declared[name] || !b.cfg.Declare
	b.mu.Unlock()
	if done {
		return b.routes.of(ctx, name)
	}
	return b.declare(ctx, name)
}

// declare makes a topic where there is none, with queues on all masters, and has the
// name servers keep the list of its queues: a key's queue is then the same whichever
// nodes are there.
func (b *Broker) declare(ctx context.Context, name string) (*route, error) {
	if why := badTopic(name); why != "" {
		return nil, noTopic(why)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*b.cfg.Timeout)
	defer cancel()
	r, err := b.routes.ask(ctx, name)
	if err != nil && settle.ScopeOf(err) == settle.ScopeTopic {
		r, err = b.make(ctx, name)
	} else if err == nil {
		r, err = b.keepOrder(ctx, r)
	}
	if err != nil {
		known := classify(err)
		return nil, &settle.PublishError{Scope: known.Scope, Err: fmt.Errorf("declare topic %q: %w", name, known.Err)}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.declared[name] = true
	return r, nil
}

// make makes a topic and waits until name servers know all its queues.
func (b *Broker) make(ctx context.Context, name string) (*route, error) {
	masters, err := b.masters(ctx)
	if err != nil {
		return nil, err
	}
	var queues []queue
	for _, broker := range slices.Sorted(maps.Keys(masters)) {
		if err := b.wire.SetTopic(ctx, masters[broker], b.asTopic(name)); err != nil {
			return nil, fmt.Errorf("make it: %w", err)
		}
		for id := range b.cfg.Queues {
			queues = append(queues, queue{broker: broker, id: id})
		}
	}
	if err := b.putOrder(ctx, name, formatOrder(queues)); err != nil {
		return nil, err
	}
	for {
		r, err := b.routes.ask(ctx, name)
		if err == nil && r.ordered && b.announces(r, queues) {
			return r, nil
		}
		if !pause(ctx, madeWait) {
			return nil, errors.Join(fmt.Errorf("name servers do not know all queues of it in time: %w", ctx.Err()), err)
		}
	}
}

func (b *Broker) asTopic(name string) remoting.Topic {
	return remoting.Topic{Name: name, Read: b.cfg.Queues, Write: b.cfg.Queues, Perm: remoting.PermRead | remoting.PermWrite, Order: true}
}

// madeWait is how often name servers are asked whether they know a topic by now.
const madeWait = 20 * time.Millisecond

func (b *Broker) announces(r *route, queues []queue) bool {
	for _, q := range queues {
		if _, is := r.master(q); !is || !slices.Contains(r.queues, q) {
			return false
		}
	}
	return true
}

// masters returns where all brokers are that are written to.
func (b *Broker) masters(ctx context.Context) (map[string]string, error) {
	var all []remoting.Node
	err := b.routes.servers(ctx, func(ctx context.Context, server string) (err error) {
		all, err = b.wire.Cluster(ctx, server)
		return err
	})
	if err != nil {
		return nil, err
	}
	masters := map[string]string{}
	for _, n := range all {
		if n.Master() {
			masters[n.Name] = n.Addr
		}
	}
	if len(masters) == 0 {
		return nil, errors.New("the name servers know no broker")
	}
	return masters, nil
}

// keepOrder gives a topic that has no fixed list of queues the one that is known
// now, and each name server that has not kept it the list of the others.
func (b *Broker) keepOrder(ctx context.Context, r *route) (*route, error) {
	order := ""
	missing := false
	for _, server := range b.at.servers {
		found, err := b.wire.Order(ctx, server, r.topic)
		if err != nil {
			b.cfg.Log.Warn("ask a name server for the list of a topic's queues", "topic", r.topic, "error", err)
			continue
		}
		if found == "" {
			missing = true
		} else if order == "" {
			order = found
		}
	}
	if !missing {
		return r, nil
	}
	if order == "" {
		order = formatOrder(r.queues)
	}
	if err := b.putOrder(ctx, r.topic, order); err != nil {
		return nil, err
	}
	return b.routes.ask(ctx, r.topic)
}

// putOrder tells all name servers that answer.
func (b *Broker) putOrder(ctx context.Context, name, order string) error {
	var errs []error
	for _, server := range b.at.servers {
		if err := b.wire.SetOrder(ctx, server, name, order); err != nil {
			errs = append(errs, fmt.Errorf("have a name server keep the list of its queues: %w", err))
		}
	}
	if len(errs) == len(b.at.servers) {
		return errors.Join(errs...)
	}
	for _, err := range errs {
		b.cfg.Log.Warn("declare a topic", "topic", name, "error", err)
	}
	return nil
}
