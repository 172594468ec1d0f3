package drill_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle/drill"
)

// cluster is three nodes in a map: in the place of one that goes the next leads
// at the second look, and it is whole at the second look after that came back.
type cluster struct {
	mu    sync.Mutex
	leads map[string]int
	away  string
	// asked counts questions since a node went, or came back.
	asked int
	acts  []string
	// wrong is what must not be done to a cluster that is not whole.
	wrong []string
	// idle nodes take over nothing.
	idle bool
}

const patientCluster = 1

func newCluster() *cluster {
	return &cluster{leads: map[string]int{"n1": 4, "n2": 3, "n3": 2}, asked: patientCluster}
}

func (c *cluster) Leads(context.Context) (map[string]int, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.away == "" {
		return maps.Clone(c.leads), c.asked > patientCluster, nil
	}
	if c.asked == 1 {
		return nil, false, errors.New("nobody answers for a moment")
	}
	if c.asked > patientCluster && !c.idle {
		next := map[string]string{"n1": "n2", "n2": "n3", "n3": "n1"}[c.away]
		c.leads[next] += c.leads[c.away]
		c.leads[c.away] = 0
	}
	there := maps.Clone(c.leads)
	delete(there, c.away)
	return there, false, nil
}

func (c *cluster) leave(act, node string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away != "" || c.asked <= patientCluster {
		c.wrong = append(c.wrong, act+" "+node)
	}
	c.away, c.asked = node, 0
	c.acts = append(c.acts, act+" "+node)
	return nil
}

func (c *cluster) back(act, node string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away != node {
		c.wrong = append(c.wrong, act+" "+node)
	}
	c.away, c.asked = "", 0
	c.acts = append(c.acts, act+" "+node)
	return nil
}

func (c *cluster) Kill(_ context.Context, node string) error   { return c.leave("kill", node) }
func (c *cluster) Stop(_ context.Context, node string) error   { return c.leave("stop", node) }
func (c *cluster) Pause(_ context.Context, node string) error  { return c.leave("pause", node) }
func (c *cluster) Start(_ context.Context, node string) error  { return c.back("start", node) }
func (c *cluster) Resume(_ context.Context, node string) error { return c.back("resume", node) }

func TestNodesThatLeadMostAreBrokenOneAtATimeAndWaitedForWhileOrdersFlow(t *testing.T) {
	p, c := pretend(t), newCluster()
	p.Cluster = c
	cfg := drillConfig(t, 60, append(drill.NodeFaultNames(), drill.FaultBrokerCut, drill.FaultRelayKill)...)
	cfg.Times, cfg.NodePause = 1, time.Second
	r, err := drill.Run(t.Context(), cfg, p.System)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Faults {
		if f.Times != 1 {
			t.Errorf("%s happened %d times", f.Name, f.Times)
		}
	}
	if len(c.wrong) > 0 || len(c.acts) != 6 {
		t.Errorf("done to a cluster that was not whole: %v; of %v", c.wrong, c.acts)
	}
	if first := c.acts[0]; !strings.HasSuffix(first, " n1") {
		t.Errorf("%s was first, and n1 led most", first)
	}
	for _, act := range []string{"kill", "stop", "pause"} {
		if !slices.ContainsFunc(c.acts, func(a string) bool { return strings.HasPrefix(a, act) }) {
			t.Errorf("no %s among %v", act, c.acts)
		}
	}
	for _, m := range r.Marks {
		if m.Name == drill.FaultBrokerPause && m.Until-m.At < cfg.NodePause.Seconds() {
			t.Errorf("a node was paused for %v s", m.Until-m.At)
		}
	}
}

func TestANodeInWhosePlaceNobodyLedWasNotBrokenAndComesBack(t *testing.T) {
	p, c := pretend(t), newCluster()
	p.Cluster, c.idle = c, true
	cfg := drillConfig(t, 20, drill.FaultBrokerPause)
	cfg.Times, cfg.NodePause = 1, 50*time.Millisecond
	r, err := drill.Run(t.Context(), cfg, p.System)
	if err != nil {
		t.Fatal(err)
	}
	if bad := r.Failures(); !slices.Contains(bad, "the fault broker-pause never happened") || !slices.Equal(c.acts, []string{"pause n1", "resume n1"}) {
		t.Errorf("%v; done is %v", bad, c.acts)
	}
}

func TestANodeComesBackWhenTheDrillIsInterruptedMeanwhile(t *testing.T) {
	p, c := pretend(t), newCluster()
	ctx, cancel := context.WithCancel(t.Context())
	p.Cluster = interrupting{c, cancel}
	cfg := drillConfig(t, 20, drill.FaultBrokerNodeKill)
	if _, err := drill.Run(ctx, cfg, p.System); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if !slices.Equal(c.acts, []string{"kill n1", "start n1"}) {
		t.Errorf("done is %v", c.acts)
	}
}

// interrupting ends the drill when it has killed a node.
type interrupting struct {
	*cluster
	end context.CancelFunc
}

func (i interrupting) Kill(ctx context.Context, node string) error {
	defer i.end()
	return i.cluster.Kill(ctx, node)
}

func TestWithoutNodesNoneIsBroken(t *testing.T) {
	p := pretend(t)
	cfg := drillConfig(t, 20, drill.FaultLeaderSwitch)
	cfg.Times, cfg.NodePause = 1, time.Second
	r, err := drill.Run(t.Context(), cfg, p.System)
	if err != nil {
		t.Fatal(err)
	}
	if bad := r.Failures(); !slices.Contains(bad, "the fault leader-switch never happened") {
		t.Errorf("%v", bad)
	}
}
