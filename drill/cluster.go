package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Cluster is a broker of several nodes. A drill breaks one of them at a time,
// and brings it back.
type Cluster interface {
	// Leads returns how many partitions, or queues, each node leads that is there,
	// by its name, and whether all nodes are there and all partitions have all
	// their copies.
	Leads(ctx context.Context) (leads map[string]int, whole bool, err error)
	// Kill ends a node at once, Stop in order. Start brings it back with its data
	// and returns when it serves.
	Kill(ctx context.Context, node string) error
	Stop(ctx context.Context, node string) error
	Start(ctx context.Context, node string) error
	// Pause stops a node from running and answering until Resume.
	Pause(ctx context.Context, node string) error
	Resume(ctx context.Context, node string) error
}

const (
	// wholeWithin is how long a cluster may take until it has all its copies.
	wholeWithin = 3 * time.Minute
	// takenWithin is how long the other nodes may take to lead in the place of one
	// that has gone.
	takenWithin = 90 * time.Second
	// leadsEvery is how often a cluster is asked who leads.
	leadsEvery = 250 * time.Millisecond
)

// breakNode breaks the node that leads most, once the cluster has all its copies,
// and returns when it has them again. It counts only what others have felt: they
// lead in the node's place.
func (r *run) breakNode(ctx context.Context, fault string) (int, error) {
	if r.sys.Cluster == nil {
		return 0, errors.New("the broker has no nodes that the drill may break")
	}
	before, err := r.awaitWhole(ctx)
	if err != nil {
		return 0, err
	}
	node := mostLeading(before)
	if before[node] == 0 {
		return 0, errors.New("no node leads anything")
	}
	c := r.sys.Cluster
	leave, comeBack, atLeast, atMost := c.Kill, c.Start, time.Duration(0), takenWithin
	switch fault {
	case FaultLeaderSwitch:
		leave = c.Stop
	case FaultBrokerPause:
		// No longer than that: nodes that miss one for a minute believe in a partition
		// of the network.
		leave, comeBack, atLeast, atMost = c.Pause, c.Resume, r.cfg.NodePause, r.cfg.NodePause
	}
	left := leave(ctx, node)
	taken := left == nil && r.awaitTaken(ctx, node, besides(before, node), atLeast, atMost)
	// It is not the drill's own: it comes back whatever becomes of the drill, and
	// also where leaving has failed half-way.
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), wholeWithin)
	defer cancel()
	if err := errors.Join(left, comeBack(back, node)); err != nil {
		return 0, fmt.Errorf("break node %s and bring it back: %w", node, err)
	}
	after, err := r.awaitWhole(ctx)
	if err != nil {
		return 0, err
	}
	if !taken && besides(after, node) <= besides(before, node) {
		return 0, fmt.Errorf("node %s was away, and nobody led in its place", node)
	}
	return 1, nil
}

// mostLeading is the first by name of those that lead most.
func mostLeading(leads map[string]int) (node string) {
	for name, n := range leads {
		if node == "" || n > leads[node] || n == leads[node] && name < node {
			node = name
		}
	}
	return node
}

// awaitWhole waits until all nodes are there with all copies.
func (r *run) awaitWhole(ctx context.Context) (map[string]int, error) {
	limited, cancel := context.WithTimeout(ctx, wholeWithin)
	defer cancel()
	for {
		leads, whole, err := r.sys.Cluster.Leads(limited)
		if err == nil && whole {
			return leads, nil
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("the broker's nodes do not have all copies within %s: %v %w", wholeWithin, leads, errors.Join(err, limited.Err()))
		case <-time.After(leadsEvery):
		}
	}
}

// besides is how much others than a node lead.
func besides(leads map[string]int, node string) (others int) {
	for name, n := range leads {
		if name != node {
			others += n
		}
	}
	return others
}

// awaitTaken waits until others than a node lead more than before, and reports
// whether they do. It waits for atLeast in any case, and for atMost in all.
func (r *run) awaitTaken(ctx context.Context, node string, before int, atLeast, atMost time.Duration) (taken bool) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	for ctx.Err() == nil && !(taken && time.Since(began) >= atLeast) {
		if !taken {
			leads, _, err := r.sys.Cluster.Leads(ctx)
			taken = err == nil && besides(leads, node) > before
		}
		select {
		case <-ctx.Done():
		case <-time.After(leadsEvery):
		}
	}
	return taken
}

// ofNode reports whether a fault is one of a broker's nodes.
func ofNode(fault string) bool { return slices.Contains(NodeFaultNames(), fault) }
