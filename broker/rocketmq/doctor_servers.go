package rocketmq

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settlemq/settle/broker/rocketmq/remoting"
	"github.com/settlemq/settle/doctor"
)

const (
	// oldestMajor is what Settle was tried with.
	oldestMajor = 5
	// skewAtMost is above the second to which a node tells its time.
	skewAtMost = 2 * time.Second
)

func (x *examination) serverChecks() []check {
	return []check{
		{"broker_version", "Settle was tried with RocketMQ 5; while nodes differ, they behave as the oldest", x.version},
		{"name_servers", "clients learn from them where topics are: without any of them no client can start, and none finds a node that has moved", x.nameServers},
		{"encryption", "without it events can be read on their way", x.encrypted},
		{"nodes", "the events of a key wait while the master of its queue is away", x.enoughNodes},
		{"clock", "how long messages are kept, and when a half message is asked for, goes by the node's clock", x.clock},
		{"auto_create", "a topic whose name is mistyped is made, takes the events, and nobody reads it", x.autoCreate},
		{"groups", "a group that a node does not know, or has switched off, reads nothing there", x.groupsKnown},
	}
}

// setting is the fix that changes one at a running node.
func (x *examination) setting(n nodeSeen, name, value string) string {
	return fmt.Sprintf("mqadmin updateBrokerConfig -n '%s' -b %s -k %s -v %s", strings.Join(x.at.servers, ";"), n.Addr, name, value)
}

// text is a setting of a node.
func (n nodeSeen) text(setting string) (string, error) {
	if n.settingsErr != nil {
		return "", n.settingsErr
	}
	value, is := n.settings[setting]
	if !is {
		return "", fmt.Errorf("%s has no %s", n.Name, setting)
	}
	return value, nil
}

func (n nodeSeen) number(setting string) (int64, error) {
	value, err := n.text(setting)
	if err != nil {
		return 0, err
	}
	number, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s of %s: %w", setting, n.Name, err)
	}
	return number, nil
}

// eachMaster judges all masters as one.
func (x *examination) eachMaster(judge func(nodeSeen, *doctor.Problems) error, good string, args ...any) (doctor.Diagnosis, error) {
	var p doctor.Problems
	for _, n := range x.masters() {
		if err := judge(n, &p); err != nil {
			return doctor.Diagnosis{}, err
		}
	}
	return p.Diagnosis(good, args...), nil
}

// release is a node's version as its state tells it, such as V5_4_0, by numbers.
func (n nodeSeen) release() (text string, major int) {
	text = strings.ReplaceAll(strings.TrimPrefix(n.state["brokerVersionDesc"], "V"), "_", ".")
	first, _, _ := strings.Cut(text, ".")
	major, err := strconv.Atoi(first)
	if err != nil {
		return text, 0
	}
	return text, major
}

func (x *examination) version() (doctor.Diagnosis, error) {
	var p doctor.Problems
	var all []string
	for _, n := range x.nodes {
		if n.stateErr != nil {
			p.Add(doctor.Warn, n.Addr, "no answer: "+flat(n.stateErr), "look at that node, and at the address that it tells clients (brokerIP1)")
			continue
		}
		text, major := n.release()
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
		if major < oldestMajor {
			p.Add(doctor.Warn, n.Addr, "version "+text, "upgrade to RocketMQ 5, slaves first")
		}
	}
	slices.Sort(all)
	if len(all) > 1 {
		p.Add(doctor.Warn, strings.Join(all, ", "), "nodes differ", "bring all nodes to the same version")
	}
	return p.Diagnosis("%s", strings.Join(all, ", ")), nil
}

func (x *examination) nameServers() (doctor.Diagnosis, error) {
	var p doctor.Problems
	for _, s := range x.servers {
		switch {
		case s.err != nil:
			p.Add(doctor.Warn, s.addr, "no answer: "+flat(s.err), "start it, or take it out of the URL")
		case len(s.nodes) < len(x.nodes):
			p.Add(doctor.Warn, s.addr, "it does not know all nodes: a client that asks it misses their queues", "name all name servers in namesrvAddr of every node; one that has just started is told within 30 s")
		}
	}
	if len(x.servers) == 1 {
		p.Add(doctor.Warn, x.servers[0].addr, "there is one", "run two or three, each on a machine of its own; name all of them in namesrvAddr of every node and in the broker's URL: rocketmq://host:9876,host:9876")
	}
	return p.Diagnosis("%d, which agree", len(x.servers)), nil
}

func (x *examination) encrypted() (doctor.Diagnosis, error) {
	if x.at.tls != nil {
		return doctor.Sound("TLS"), nil
	}
	var p doctor.Problems
	addrs := slices.Clone(x.at.servers)
	for _, n := range x.nodes {
		addrs = append(addrs, n.Addr)
	}
	for _, addr := range addrs {
		host, _, _ := net.SplitHostPort(addr)
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			p.Add(doctor.Warn, addr, "not encrypted", "tls.server.mode=enforcing with a certificate in tls.properties of every node, then tls=true in the URL")
		}
	}
	return p.Diagnosis("not needed: the servers are reached on this machine"), nil
}

func (x *examination) enoughNodes() (doctor.Diagnosis, error) {
	var p doctor.Problems
	for _, n := range x.nodes {
		if !slices.ContainsFunc(x.masters(), func(m nodeSeen) bool { return m.Name == n.Name }) {
			p.Add(doctor.Bad, n.Name, "its master is away: the keys of its queues wait", "start it; its slave does not take over by itself, unless the nodes are led by controllers (enableControllerMode)")
		}
		if perm, err := n.number("brokerPermission"); err == nil && n.Master() && perm&remoting.PermWrite == 0 {
			p.Add(doctor.Bad, n.Name, "it takes no messages (brokerPermission)", x.setting(n, "brokerPermission", "6"))
		}
	}
	if len(x.masters()) == 1 {
		p.Add(doctor.Warn, x.masters()[0].Name, "the only master: while it is away, nothing is published", "run two or more masters, each with a slave; a topic that has queues on all of them goes on with the others' keys")
	}
	return p.Diagnosis("%d masters", len(x.masters())), nil
}

func (x *examination) clock() (doctor.Diagnosis, error) {
	var p doctor.Problems
	for _, n := range x.nodes {
		switch {
		case n.stateErr != nil:
			return doctor.Diagnosis{}, n.stateErr
		case n.doubt < 0:
			return doctor.Diagnosis{}, errors.New("a node does not tell for how long it runs")
		case n.skew.Abs() > skewAtMost+n.doubt:
			p.Add(doctor.Warn, n.Addr, fmt.Sprintf("it is %s ahead of this machine's", n.skew.Round(time.Second)), "synchronize the clocks (chrony, ntpd) of all nodes and of this machine")
		}
	}
	return p.Diagnosis("the nodes' agree with this machine's"), nil
}

func (x *examination) autoCreate() (doctor.Diagnosis, error) {
	return x.eachMaster(func(n nodeSeen, p *doctor.Problems) error {
		on, err := n.text("autoCreateTopicEnable")
		if err == nil && on == "true" {
			p.Add(doctor.Warn, n.Name, "on", "autoCreateTopicEnable=false in the file of every node, and restart them one by one")
		}
		return err
	}, "off")
}

// groupsKnown is bad where a group can't read, whoever makes it.
func (x *examination) groupsKnown() (doctor.Diagnosis, error) {
	return x.eachMaster(func(n nodeSeen, p *doctor.Problems) error {
		made, err := n.text("autoCreateSubscriptionGroup")
		if err == nil {
			err = n.groupsErr
		}
		if err != nil {
			return err
		}
		known := map[string]bool{}
		for _, g := range n.groups {
			known[g.Name] = true
			if !g.Enabled && slices.Contains(x.cfg.Groups, g.Name) {
				p.Add(doctor.Bad, n.Name+" "+g.Name, "switched off", x.group(g.Name))
			}
		}
		for _, name := range x.cfg.Groups {
			if !known[name] && made != "true" {
				p.Add(doctor.Warn, n.Name+" "+name, "not there, and the node makes none (autoCreateSubscriptionGroup=false): who reads has to be allowed to make it", x.group(name))
			}
		}
		if made == "true" {
			p.Add(doctor.Warn, n.Name, "a group whose name is mistyped is made (autoCreateSubscriptionGroup=true)", "make the groups with mqadmin updateSubGroup, then autoCreateSubscriptionGroup=false in the file of every node, and restart them one by one")
		}
		return nil
	}, "made on purpose")
}

func (x *examination) group(name string) string {
	return fmt.Sprintf("mqadmin updateSubGroup -n '%s' -c %s -g %s -s true", strings.Join(x.at.servers, ";"), x.nodes[0].Cluster, name)
}
