package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

// route is where a topic is, as far as is known. It is not changed once it is made.
type route struct {
	topic string
	layout
	// masters are where brokers are written to and read, by name.
	masters map[string]string
}

// master returns where the broker of a queue is.
func (r *route) master(q queue) (addr string, ok bool) {
	addr, ok = r.masters[q.broker]
	return addr, ok
}

// routes keeps those of the topics in use. Name servers that are away do not
// disturb what is known.
type routes struct {
	b *Broker

	mu    sync.Mutex
	known map[string]*route
	// asked is when a topic was last asked for.
	asked map[string]time.Time
	// changed is closed and made anew when a route is another than before.
	changed chan struct{}
	// first is the name server that is asked first: the one that answered last.
	first int
	// soon wakes who asks.
	soon chan struct{}
}

func newRoutes(b *Broker) *routes {
	return &routes{b: b, known: map[string]*route{}, asked: map[string]time.Time{}, changed: make(chan struct{}), soon: make(chan struct{}, 1)}
}

// of returns the route of a topic that is in use, and asks for it when it is not
// known. An error is a *settle.PublishError.
func (r *routes) of(ctx context.Context, topic string) (*route, error) {
	r.mu.Lock()
	known := r.known[topic]
	r.mu.Unlock()
	if known != nil {
		return known, nil
	}
	return r.ask(ctx, topic)
}

// ask asks the name servers, one after the other until one answers.
func (r *routes) ask(ctx context.Context, topic string) (*route, error) {
	var found remoting.Route
	var order string
	err := r.servers(ctx, func(ctx context.Context, server string) (err error) {
		found, order, err = r.one(ctx, server, topic)
		return err
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[topic] = time.Now()
	if remoting.IsRefusal(err, remoting.TopicMissing) {
		if r.known[topic] != nil {
			delete(r.known, topic)
			r.touch()
		}
		return nil, &settle.PublishError{Scope: settle.ScopeTopic, Err: fmt.Errorf("there is no topic %q: %w", topic, err)}
	}
	if err != nil {
		known := classify(err)
		return nil, &settle.PublishError{Scope: known.Scope, Err: fmt.Errorf("ask name servers for topic %q: %w", topic, known.Err)}
	}
	return r.learn(topic, order, found), nil
}

// one asks a name server, which forgets a topic when all its brokers are away. One
// whose list of queues is kept, and names a broker that is away, is there.
func (r *routes) one(ctx context.Context, server, topic string) (found remoting.Route, order string, err error) {
	found, missing := r.b.wire.Route(ctx, server, topic)
	if missing != nil && !remoting.IsRefusal(missing, remoting.TopicMissing) {
		return found, "", missing
	}
	if order, err = r.b.wire.Order(ctx, server, topic); err != nil || missing == nil {
		return found, order, err
	}
	nodes, err := r.b.wire.Cluster(ctx, server)
	if err != nil {
		return found, "", err
	}
	fixed, _ := parseOrder(order)
	for _, q := range fixed {
		if !slices.ContainsFunc(nodes, func(n remoting.Node) bool { return n.Master() && n.Name == q.broker }) {
			return remoting.Route{}, order, nil
		}
	}
	return found, "", missing
}

// within bounds a call.
func within(ctx context.Context, d time.Duration, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return call(ctx)
}

// learn takes over what a name server says.
func (r *routes) learn(topic, order string, found remoting.Route) *route {
	before := r.known[topic]
	was := layout{}
	if before != nil {
		was = before.layout
	}
	now := &route{topic: topic, layout: layoutOf(order, announced(found, remoting.PermWrite), announced(found, remoting.PermRead), was), masters: map[string]string{}}
	for _, n := range found.Nodes {
		if n.Master() {
			now.masters[n.Name] = n.Addr
		}
	}
	if before != nil && slices.Equal(before.queues, now.queues) && before.fixed == now.fixed && before.ordered == now.ordered && maps.Equal(before.masters, now.masters) {
		return before
	}
	r.known[topic] = now
	r.touch()
	if before == nil && !now.ordered {
		r.b.cfg.Log.Warn("no name server keeps a list of this topic's queues: after a restart the keys of a node that is down go elsewhere, which breaks their order; declare the topic, or settle doctor says how", "topic", topic)
	}
	return now
}

// announced are the queues that brokers say they have, to write to or to read.
func announced(found remoting.Route, perm int) []queue {
	var all []queue
	for _, q := range found.Queues {
		n := q.Read
		if perm == remoting.PermWrite {
			n = q.Write
		}
		if q.Perm&perm == 0 {
			continue
		}
		for id := range min(n, maxQueues) {
			all = append(all, queue{broker: q.Broker, id: id})
		}
	}
	return all
}

// touch wakes who waits for a change. Its caller holds the lock.
func (r *routes) touch() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// change returns what is closed when a route changes.
func (r *routes) change() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// servers asks one name server after the other, until one answers: with what was
// asked for, or that it has no such thing.
func (r *routes) servers(ctx context.Context, ask func(ctx context.Context, server string) error) error {
	r.mu.Lock()
	first := r.first
	r.mu.Unlock()
	all := r.b.at.servers
	var errs []error
	for i := range all {
		n := (first + i) % len(all)
		err := within(ctx, r.b.cfg.Timeout, func(ctx context.Context) error { return ask(ctx, all[n]) })
		if err == nil || remoting.IsRefusal(err, remoting.TopicMissing) {
			r.mu.Lock()
			r.first = n
			r.mu.Unlock()
			return err
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// doubt has all routes asked for soon, because one has turned out to be wrong.
func (r *routes) doubt() {
	select {
	case r.soon <- struct{}{}:
	default:
	}
}

// doubtEvery is how often routes are asked for while servers fail.
const doubtEvery = 250 * time.Millisecond

// keep asks for the routes in use again and again, until ctx ends.
func (r *routes) keep(ctx context.Context) {
	for failing := false; ; {
		timer := time.NewTimer(r.b.cfg.RouteEvery)
		select {
		case <-timer.C:
		case <-r.soon:
			if !pause(ctx, doubtEvery) {
				return
			}
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		topics := slices.Sorted(maps.Keys(r.known))
		r.mu.Unlock()
		failing = r.askAll(ctx, topics, failing)
	}
}

// askAll asks for topics, and tells once when that begins to fail and when it does not
// any more.
func (r *routes) askAll(ctx context.Context, topics []string, failing bool) bool {
	var failed error
	for _, topic := range topics {
		if _, err := r.ask(ctx, topic); err != nil {
			failed = err
		}
	}
	switch {
	case ctx.Err() != nil:
	case failed != nil && !failing:
		r.b.cfg.Log.Warn("ask where topics are; what is known goes on", "error", failed)
	case failed == nil && failing:
		r.b.cfg.Log.Info("name servers say where topics are again")
	}
	return failed != nil
}

// pause waits for d and reports whether ctx allowed it.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// forget makes the next use ask for a topic that has turned out to be another. Its
// queues keep their places as long as name servers keep the list.
func (r *routes) forget(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, topic)
}

// reachable returns where the records of a key go when those of nodes that are down
// may go elsewhere.
func (r *route) reachable(key string, nodes *nodes) int {
	var all []int
	for n, q := range r.queues[:r.fixed] {
		if _, is := r.master(q); is && nodes.why(q.broker) == nil {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return r.partitionOf(key)
	}
	return all[settle.PartitionOf(key, len(all))]
}

// get returns what is known of a topic.
func (r *routes) get(topic string) *route {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[topic]
}

// masters returns where the brokers of all topics in use are, empty for one that is
// away.
func (r *routes) masters() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]string{}
	for _, known := range r.known {
		for _, q := range known.queues[:known.fixed] {
			all[q.broker] = known.masters[q.broker]
		}
	}
	return all
}
