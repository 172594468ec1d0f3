package cli

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/drill"
)

// leastNodes are those of which one may be away: the others are a majority.
const leastNodes = 3

// nodeActTimeout bounds one act of the program that --nodes names.
const nodeActTimeout = 3 * time.Minute

// demoNodes are the nodes of a demo's broker, by the program that --nodes names.
type demoNodes struct {
	command string
	tap     dial.BrokerTap
	topic   string
	// at is where clients reach each node, admins the nodes' management APIs by
	// that.
	at, admins map[string]string
}

// nodesWanted says what is missing for the faults of nodes, if any were asked
// for.
func (d *demo) nodesWanted() error {
	i := slices.IndexFunc(d.named, func(name string) bool { return slices.Contains(drill.NodeFaultNames(), name) })
	switch hosts := d.broker.hosts(); {
	case d.nodes == "" && i >= 0:
		return usagef("--faults: %s needs --nodes: a program that ends, starts and pauses the broker's nodes by their names, as scripts/services does", d.named[i])
	case d.nodes == "":
	case d.broker.url == "":
		return usagef("--nodes is for a broker of several nodes; name it with --broker")
	case d.broker.rocket():
		return usagef("--nodes: not with RocketMQ, where the keys of a master that is away wait for it, and no other node takes over")
	case len(hosts) < leastNodes:
		return usagef("--nodes: --broker names %s, and the faults of nodes need %d: one is away, the others are a majority", count(len(hosts), "node", "nodes"), leastNodes)
	case d.faults == "" || d.faults == "all":
		d.named = slices.Concat(d.named, drill.NodeFaultNames())
	}
	return nil
}

// find asks the program for the nodes, and compares them with --broker.
func (d *demo) findNodes(ctx context.Context) error {
	if d.nodes == "" {
		return nil
	}
	n := &demoNodes{command: d.nodes, at: map[string]string{}, admins: map[string]string{}}
	said, err := n.act(ctx, "status")
	if err != nil {
		return usagef("--nodes: %w", d.broker.hide(err))
	}
	hosts := d.broker.hosts()
	for line := range strings.Lines(said) {
		words := strings.Fields(line)
		if len(words) < 3 {
			continue
		}
		at := hostsOfURL(words[2])
		if len(at) != 1 || !slices.Contains(hosts, at[0]) {
			continue
		}
		if words[1] != "running" {
			return usagef("--nodes: node %s is %s; all have to run before one is broken", words[0], words[1])
		}
		n.at[words[0]] = at[0]
		if len(words) > 3 {
			n.admins[at[0]] = strings.TrimSuffix(words[3], "/")
		}
	}
	for _, host := range hosts {
		if !slices.ContainsFunc(n.names(), func(name string) bool { return n.at[name] == host }) {
			return usagef("--nodes: %s status tells of no node at %s; it prints a line NAME running URL for each", d.nodes, host)
		}
		if !d.broker.kafka() && n.admins[host] == "" {
			what := "management API"
			if d.broker.nats() {
				what = "monitor"
			}
			return usagef("--nodes: %s status tells of no %s of the node at %s, which says who leads; its URL is the fourth word of the node's line", d.nodes, what, host)
		}
	}
	d.cluster = n
	return nil
}

func (n *demoNodes) names() (all []string) {
	for name := range n.at {
		all = append(all, name)
	}
	return all
}

// act runs the program with an act and the names of nodes, and returns what it
// prints.
func (n *demoNodes) act(ctx context.Context, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeActTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", n.command + ` "$@"`, "sh"}, words...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", n.command, strings.Join(words, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// Leads implements drill.Cluster.
func (n *demoNodes) Leads(ctx context.Context) (map[string]int, bool, error) {
	byHost, whole, err := n.tap.Leads(ctx, n.topic, n.admins)
	if err != nil {
		return nil, false, err
	}
	leads := map[string]int{}
	for name, at := range n.at {
		if held, there := byHost[at]; there {
			leads[name] = held
		}
	}
	return leads, whole && len(leads) == len(n.at), nil
}

// Kill, Stop, Start, Pause and Resume implement drill.Cluster.
func (n *demoNodes) Kill(ctx context.Context, node string) error  { return n.tell(ctx, "kill", node) }
func (n *demoNodes) Stop(ctx context.Context, node string) error  { return n.tell(ctx, "stop", node) }
func (n *demoNodes) Start(ctx context.Context, node string) error { return n.tell(ctx, "start", node) }
func (n *demoNodes) Pause(ctx context.Context, node string) error { return n.tell(ctx, "pause", node) }
func (n *demoNodes) Resume(ctx context.Context, node string) error {
	return n.tell(ctx, "resume", node)
}

func (n *demoNodes) tell(ctx context.Context, act, node string) error {
	_, err := n.act(ctx, act, node)
	return err
}
