package rocketmq

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle/broker/rocketmq/remoting"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/doctor/doctortest"
)

// soundNode is a master or a slave of which nothing is to be mended.
func soundNode(name string, id int64) nodeSeen {
	n := nodeSeen{
		Node: remoting.Node{Cluster: "c", Name: name, ID: id, Addr: "127.0.0.1:1"},
		settings: map[string]string{
			"brokerPermission": "6", "autoCreateTopicEnable": "false", "autoCreateSubscriptionGroup": "false", "flushDiskType": "SYNC_FLUSH", "brokerRole": "SYNC_MASTER",
			"inSyncReplicas": "2", "minInSyncReplicas": "1", "fileReservedTime": "168", "diskSpaceWarningLevelRatio": "90", "diskSpaceCleanForciblyRatio": "85", "maxMessageSize": "4194304",
			"transactionTimeOut": "6000", "transactionOpBatchInterval": "1000", "transactionCheckInterval": "30000", "transactionCheckMax": "15",
		},
		state:  map[string]string{"brokerVersionDesc": "V5_4_0", "commitLogDiskRatio": "0.2"},
		groups: []remoting.Group{{Name: "g", Enabled: true}},
	}
	n.copies.InSync = 1
	return n
}

// soundCluster has two masters, each with a slave, and one topic.
func soundCluster() *examination {
	x := &examination{
		cfg:   NewDoctor("", DoctorConfig{Groups: []string{"g"}}).cfg,
		at:    address{servers: []string{"127.0.0.1:2", "127.0.0.1:3"}},
		nodes: []nodeSeen{soundNode("a", 0), soundNode("a", 1), soundNode("b", 0), soundNode("b", 1)},
	}
	var nodes []remoting.Node
	for _, n := range x.nodes {
		nodes = append(nodes, n.Node)
	}
	for _, addr := range x.at.servers {
		x.servers = append(x.servers, serverSeen{addr: addr, nodes: nodes})
	}
	at := remoting.Topic{Name: "order", Read: 4, Write: 4, Perm: 6}
	x.topics = []topicSeen{{name: "order", at: map[string]remoting.Topic{"a": at, "b": at}, orders: []string{"a:4;b:4"}}}
	return x
}

func (x *examination) judged() map[string]doctor.Finding {
	by := map[string]doctor.Finding{}
	for _, c := range x.checks() {
		by[c.name] = x.run(c)
	}
	return by
}

func (x *examination) topicAt(broker string, change func(*remoting.Topic)) {
	at := x.topics[0].at[broker]
	change(&at)
	x.topics[0].at[broker] = at
}

func TestNothingIsFoundOfASoundCluster(t *testing.T) {
	for name, f := range soundCluster().judged() {
		if f.Verdict != doctor.OK || f.Found == "" || f.Fix != "" || f.Why == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestDoctorNamesEachThingThatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name       string
		plant      func(*examination)
		check      string
		verdict    doctor.Verdict
		found, fix string
	}{
		{"nodes of two versions", func(x *examination) { x.nodes[3].state["brokerVersionDesc"] = "V5_3_0" }, "broker_version", doctor.Warn, "nodes differ: 5.3.0, 5.4.0", "same version"},
		{"an old version", func(x *examination) { x.nodes[0].state["brokerVersionDesc"] = "V4_9_4" }, "broker_version", doctor.Warn, "version 4.9.4", "upgrade"},
		{"a node that does not answer", func(x *examination) { x.nodes[0].stateErr = errors.New("no route") }, "broker_version", doctor.Warn, "no answer: no route", "brokerIP1"},
		{"a name server that is away", func(x *examination) { x.servers[1].err = errors.New("refused") }, "name_servers", doctor.Warn, "no answer: refused: 127.0.0.1:3", "start it"},
		{"a name server that knows less", func(x *examination) { x.servers[1].nodes = x.servers[1].nodes[:2] }, "name_servers", doctor.Warn, "does not know all nodes", "namesrvAddr"},
		{"one name server", func(x *examination) { x.servers = x.servers[:1] }, "name_servers", doctor.Warn, "there is one", "two or three"},
		{"a name server far away", func(x *examination) { x.at.servers[0] = "10.0.0.1:9876" }, "encryption", doctor.Warn, "not encrypted: 10.0.0.1:9876", "tls=true"},
		{"a master that is away", func(x *examination) { x.nodes = x.nodes[1:] }, "nodes", doctor.Bad, "its master is away: the keys of its queues wait: a", "start it"},
		{"a master that takes nothing", func(x *examination) { x.nodes[0].settings["brokerPermission"] = "4" }, "nodes", doctor.Bad, "takes no messages", "brokerPermission -v 6"},
		{"one master", func(x *examination) { x.nodes = x.nodes[:2] }, "nodes", doctor.Warn, "the only master", "two or more"},
		{"a clock that is ahead", func(x *examination) { x.nodes[2].skew = time.Minute }, "clock", doctor.Warn, "1m0s ahead", "chrony"},
		{"a clock that is not told", func(x *examination) { x.nodes[2].doubt = -1 }, "clock", doctor.Warn, "can't be looked at", "look again"},
		{"topics that are made by anybody", func(x *examination) { x.nodes[0].settings["autoCreateTopicEnable"] = "true" }, "auto_create", doctor.Warn, "on: a", "autoCreateTopicEnable=false"},
		{"a group that is missing", func(x *examination) { x.nodes[2].groups = nil }, "groups", doctor.Warn, "has to be allowed to make it: b g", "updateSubGroup -n '127.0.0.1:2;127.0.0.1:3' -c c -g g"},
		{"a group that is off", func(x *examination) { x.nodes[0].groups = []remoting.Group{{Name: "g"}} }, "groups", doctor.Bad, "switched off: a g", "updateSubGroup"},
		{"groups that are made by anybody", func(x *examination) { x.nodes[0].settings["autoCreateSubscriptionGroup"] = "true" }, "groups", doctor.Warn, "mistyped", "updateSubGroup"},
		{"memory of two", func(x *examination) { x.nodes[0].settings["flushDiskType"] = "ASYNC_FLUSH" }, "flush_disk", doctor.Warn, "takes the slave, too", "SYNC_FLUSH"},
		{"memory of one", func(x *examination) {
			x.nodes[0].settings["flushDiskType"], x.nodes[0].settings["brokerRole"] = "ASYNC_FLUSH", "ASYNC_MASTER"
		}, "flush_disk", doctor.Bad, "memory of one node", "SYNC_FLUSH"},
		{"no wait for the slave", func(x *examination) { x.nodes[0].settings["brokerRole"] = "ASYNC_MASTER" }, "replication", doctor.Bad, "before a slave has it", "brokerRole=SYNC_MASTER and inSyncReplicas=2"},
		{"a wait for nobody", func(x *examination) { x.nodes[0].settings["inSyncReplicas"] = "1" }, "replication", doctor.Bad, "SYNC_MASTER waits for no slave", "-k inSyncReplicas -v 2"},
		{"a number that sinks", func(x *examination) { x.nodes[0].settings["enableAutoInSyncReplicas"] = "true" }, "replication", doctor.Bad, "waits for no slave", "inSyncReplicas"},
		{"no slave", func(x *examination) { x.nodes = slices.Delete(x.nodes, 1, 2) }, "replication", doctor.Bad, "there is no slave: a", "brokerRole=SLAVE"},
		{"controllers that wait for nobody", func(x *examination) { x.nodes[0].settings["enableControllerMode"] = "true" }, "replication", doctor.Bad, "allAckInSyncStateSet=false", "minInSyncReplicas -v 2"},
		{"controllers that do without", func(x *examination) {
			x.nodes[0].settings["enableControllerMode"], x.nodes[0].settings["allAckInSyncStateSet"] = "true", "true"
		}, "replication", doctor.Bad, "minInSyncReplicas=1", "minInSyncReplicas -v 2"},
		{"settings that are hidden", func(x *examination) {
			x.nodes[0].settings, x.nodes[0].settingsErr = nil, &remoting.Refusal{Server: "h:1", Request: 26, Code: remoting.NoRight, Remark: "no"}
		}, "replication", doctor.Warn, "can't be looked at: RocketMQ at h:1 refuses", "plain_acl.yml"},
		{"a slave that is behind", func(x *examination) { x.nodes[2].copies.InSync = 0 }, "slaves_now", doctor.Bad, "takes nothing until more are: b", "haListenPort"},
		{"a slave that is behind and not waited for", func(x *examination) {
			x.nodes[2].copies.InSync, x.nodes[2].settings["inSyncReplicas"] = 0, "1"
		}, "slaves_now", doctor.Warn, "0 of 1 are with the master: b", "haListenPort"},
		{"a short memory", func(x *examination) { x.nodes[0].settings["fileReservedTime"] = "72" }, "file_reserved_time", doctor.Bad, "kept for 3 d, and must be readable for 7 d: a", "-v 168"},
		{"a full disk", func(x *examination) { x.nodes[0].state["commitLogDiskRatio"] = "0.86" }, "disk", doctor.Bad, "86 % of the disk are used; at 85 %", "make room"},
		{"a disk that fills up", func(x *examination) { x.nodes[0].state["commitLogDiskRatio"] = "0.81" }, "disk", doctor.Warn, "81 %", "make room"},
		{"small messages", func(x *examination) { x.nodes[0].settings["maxMessageSize"] = "65536" }, "max_message_size", doctor.Bad, "65536 bytes", "maxMessageSize -v 4194304"},
		{"notes that come late", func(x *examination) { x.nodes[0].settings["transactionOpBatchInterval"] = "6000" }, "transactions", doctor.Warn, "again and again", "transactionOpBatchInterval -v 1500"},
		{"half messages that are given up soon", func(x *examination) { x.nodes[0].settings["transactionCheckMax"] = "5" }, "transactions", doctor.Warn, "5 sweeps of 30s, so 2m30s", "transactionCheckMax -v 20"},
		{"half messages that are refused", func(x *examination) { x.nodes[0].settings["rejectTransactionMessage"] = "true" }, "transactions", doctor.Warn, "refused", "-v false"},
		{"a topic that is missing", func(x *examination) { x.missing = []string{"pay"} }, "topics", doctor.Warn, "not there: pay", "updateTopic"},
		{"no topic at all", func(x *examination) { x.topics = nil }, "topics", doctor.Warn, "none is seen", "--topic"},
		{"a topic that takes nothing", func(x *examination) { x.topicAt("b", func(at *remoting.Topic) { at.Perm = remoting.PermRead }) }, "topic_permission", doctor.Bad, "nothing may be written: order at b", "-p 6"},
		{"a topic that gives nothing", func(x *examination) { x.topicAt("b", func(at *remoting.Topic) { at.Perm = remoting.PermWrite }) }, "topic_permission", doctor.Bad, "nothing may be read: order at b", "-p 6"},
		{"queues that nobody reads", func(x *examination) { x.topicAt("a", func(at *remoting.Topic) { at.Read = 2 }) }, "topic_queues", doctor.Bad, "4 queues are written and 2 of them read: order at a", "-r 4 -w 4"},
		{"a topic that is at one master", func(x *examination) { delete(x.topics[0].at, "b") }, "topic_queues", doctor.Warn, "no queues at b: order", "while it is empty"},
		{"one queue", func(x *examination) {
			x.nodes = x.nodes[:2]
			delete(x.topics[0].at, "b")
			x.topicAt("a", func(at *remoting.Topic) { at.Read, at.Write = 1, 1 })
		}, "topic_queues", doctor.Warn, "one queue", "make a new topic"},
		{"no list", func(x *examination) { x.topics[0].orders = []string{""} }, "topic_order", doctor.Warn, "keep no list", "settle serve"},
		{"two lists", func(x *examination) { x.topics[0].orders = []string{"a:4;b:4", "a:4"} }, "topic_order", doctor.Warn, "different lists", "settle serve"},
		{"a list of what is not there", func(x *examination) { x.topics[0].orders = []string{"a:5;b:4"} }, "topic_order", doctor.Bad, "a/4", "updateTopic"},
		{"a list that can't be read", func(x *examination) { x.topics[0].orders = []string{"a:many"} }, "topic_order", doctor.Bad, "can't be read", "updateOrderConf"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := soundCluster()
			c.plant(x)
			doctortest.Says(t, x.judged(), c.check, c.verdict, c.found, c.fix)
		})
	}
}

func TestAMajorityOfALogOfItsOwnIsMoreThanOneCopy(t *testing.T) {
	x := soundCluster()
	x.nodes[0].settings["enableDLegerCommitLog"], x.nodes[0].settings["brokerRole"] = "true", "ASYNC_MASTER"
	if f := x.judged()["replication"]; f.Verdict != doctor.OK {
		t.Errorf("it says %+v", f)
	}
}

func TestANodeTellsItsTimeBySinceWhenAndForHowLongItRuns(t *testing.T) {
	state := map[string]string{"bootTimestamp": "1700000000000", "runtime": "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"}
	want := time.UnixMilli(1700000000000).Add(26*time.Hour + 3*time.Minute + 4*time.Second)
	if got, ok := nodeTime(state); !ok || !got.Equal(want) {
		t.Errorf("it is %s, %v; want %s", got, ok, want)
	}
	for _, spoilt := range []map[string]string{{"bootTimestamp": "x"}, {"runtime": "long"}} {
		with := maps.Clone(state)
		maps.Copy(with, spoilt)
		if got, ok := nodeTime(with); ok {
			t.Errorf("of %v it is %s", with, got)
		}
	}
}
