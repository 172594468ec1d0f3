package kafka

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/settlemq/settle/doctor"
)

// soundTopic has three copies on nodes 1 to 3, each partition led by another.
func soundTopic(name string) topicSeen {
	t := topicSeen{name: name, may: []kadm.ACLOperation{kmsg.ACLOperationRead, kmsg.ACLOperationWrite}, settings: map[string]string{
		settingInSync: "2", settingUnclean: "false", settingCleanup: "delete", settingKeepFor: "604800000", settingKeepBytes: "-1",
		settingMaxBytes: "1048588", settingTimes: "CreateTime", settingBehind: "9223372036854775807", settingAhead: "3600000",
	}}
	for i := range int32(3) {
		t.partitions = append(t.partitions, kadm.PartitionDetail{Topic: name, Partition: i, Leader: 1 + i, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}})
	}
	return t
}

// soundCluster is what a cluster of three says of which nothing is to be mended.
func soundCluster() *examination {
	x := &examination{
		cfg:      NewDoctor("", DoctorConfig{}).cfg,
		tools:    toolsOf("kafka://h:9092", address{hosts: []string{"h:9092"}}),
		nodes:    []int32{1, 2, 3},
		versions: map[int32]string{1: "v4.0", 2: "v4.0", 3: "v4.0"},
		settings: map[string]map[int32]string{},
		topics:   []topicSeen{soundTopic("order"), soundTopic("payment")},
		quorum:   quorum{leader: 1, silent: map[int32]time.Duration{1: 0, 2: time.Second, 3: time.Second}, skew: 100 * time.Millisecond},
		disks:    []disk{{node: 1, dir: "/data", total: 100 << 30, free: 50 << 30}, {node: 2, dir: "/data", total: 1 << 30, free: 900 << 20}, {node: 3, dir: "/data", total: -1, free: -1}},
		groups:   map[string][]kadm.ACLOperation{"g": {kmsg.ACLOperationRead}},
	}
	for setting, value := range map[string]string{
		settingAutoCreate: "false", settingCopies: "3", settingInSync: "2", settingUnclean: "false", settingOffsetsCopies: "3", settingOffsetsKept: "10080",
		settingTxnCopies: "3", settingTxnInSync: "2", settingFlushMessages: "9223372036854775807",
	} {
		x.node(setting, value)
	}
	return x
}

func (x *examination) node(setting, value string) {
	x.settings[setting] = map[int32]string{1: value, 2: value, 3: value}
}

// one gives the first node a value of its own.
func (x *examination) one(setting, value string) { x.settings[setting][1] = value }

func (x *examination) set(setting, value string) { x.topics[0].settings[setting] = value }

func (x *examination) keep(copies ...int32) {
	for i := range x.topics[0].partitions {
		p := &x.topics[0].partitions[i]
		p.Replicas, p.ISR, p.Leader = copies, copies, copies[0]
	}
}

func (x *examination) may(operations ...kadm.ACLOperation) { x.topics[0].may = operations }

func TestADoctorJudgesWhatAClusterSaysOfItself(t *testing.T) {
	for name, c := range map[string]struct {
		check      string
		plant      func(x *examination)
		want       doctor.Verdict
		found, fix string
	}{
		"a version of its own":    {"broker_version", func(x *examination) { x.versions[2] = "v3.9" }, doctor.Warn, "v4.0, v3.9", "same version"},
		"a silent node":           {"broker_version", func(x *examination) { delete(x.versions, 3) }, doctor.Warn, "node 3", "advertised.listeners"},
		"one node":                {"nodes", func(x *examination) { x.nodes = x.nodes[:1] }, doctor.Warn, "1 is seen", "run three"},
		"two nodes":               {"nodes", func(x *examination) { x.nodes = x.nodes[:2] }, doctor.Warn, "no second copy", "start the third"},
		"one controller":          {"controller_quorum", func(x *examination) { x.quorum.silent = map[int32]time.Duration{1: 0} }, doctor.Bad, "one controller, 1", "add-controller"},
		"four controllers":        {"controller_quorum", func(x *examination) { x.quorum.silent[4] = 0 }, doctor.Warn, "4 controllers", "three or five"},
		"a controller away":       {"controller_quorum", func(x *examination) { x.quorum.silent[2] = time.Minute }, doctor.Warn, "2 (for 1m0s)", "describe --replication"},
		"no right to see them":    {"controller_quorum", func(x *examination) { x.quorumErr = kerr.ClusterAuthorizationFailed }, doctor.Warn, "can't be looked at", "--operation Describe --operation DescribeConfigs --cluster"},
		"a disk nearly full":      {"disks", func(x *examination) { x.disks[1].free = 200 << 20 }, doctor.Bad, "less than 256 MiB are free: /data of node 2", "make room"},
		"a disk that fills up":    {"disks", func(x *examination) { x.disks[0].free = 1 << 30 }, doctor.Warn, "5 % are free: /data of node 1", "make room"},
		"a disk that failed":      {"disks", func(x *examination) { x.disks[2].failed = true }, doctor.Bad, "failed, the node goes on without it: /data of node 3", "restart the node"},
		"disks of an old cluster": {"disks", func(x *examination) { x.disks = x.disks[2:] }, doctor.Warn, "do not tell how much", "look again"},
		"no right to see disks":   {"disks", func(x *examination) { x.disksErr = kerr.ClusterAuthorizationFailed }, doctor.Warn, "can't be looked at", "--cluster"},
		"a clock ahead":           {"cluster_clock", func(x *examination) { x.quorum.skew = 3 * time.Second }, doctor.Warn, "3s ahead", "chrony"},
		"a clock behind":          {"cluster_clock", func(x *examination) { x.quorum.skew = -3 * time.Second }, doctor.Warn, "-3s ahead", "chrony"},
		"a slow network":          {"cluster_clock", func(x *examination) { x.quorum.skew, x.quorum.doubt = 3*time.Second, 4*time.Second }, doctor.OK, "agrees", ""},
		"no clock":                {"cluster_clock", func(x *examination) { x.quorum.doubt = -1 }, doctor.Warn, "do not tell the time", "look again"},
		"one copy by default":     {"new_topics", func(x *examination) { x.one(settingCopies, "1") }, doctor.Warn, "one copy", "default.replication.factor=3"},
		"one copy to be made":     {"new_topics", func(x *examination) { x.node(settingCopies, "1"); x.missing = []string{"m"} }, doctor.Bad, "to be made are m", "--create --topic m --partitions 12 --replication-factor 3 --config min.insync.replicas=2"},
		"one proved by default":   {"new_topics", func(x *examination) { x.node(settingInSync, "1") }, doctor.Warn, "3 copies, one of which is enough", "--entity-default --add-config min.insync.replicas=2"},
		"unclean by default":      {"new_topics", func(x *examination) { x.one(settingUnclean, "true") }, doctor.Warn, "behind may lead", "unclean.leader.election.enable=false"},
		"settings hidden":         {"new_topics", func(x *examination) { x.settings, x.settingsErr = nil, kerr.ClusterAuthorizationFailed }, doctor.Warn, "CLUSTER_AUTHORIZATION_FAILED", "--cluster"},
		"settings not known":      {"new_topics", func(x *examination) { x.settings = nil }, doctor.Warn, "have no default.replication.factor", "look again"},
		"topics made by mistake":  {"auto_create", func(x *examination) { x.one(settingAutoCreate, "true") }, doctor.Warn, "on", "auto.create.topics.enable=false"},
		"offsets on one node": {"offsets_topic", func(x *examination) {
			x.internal = map[string][]kadm.PartitionDetail{offsetsTopic: {{Topic: offsetsTopic, Replicas: []int32{2}}}}
		}, doctor.Bad, "one copy", `"replicas":[2,1,3]`},
		"offsets to be on one node": {"offsets_topic", func(x *examination) { x.node(settingOffsetsCopies, "1") }, doctor.Bad, "one copy", "offsets.topic.replication.factor=3"},
		"offsets for an hour":       {"offsets_retention", func(x *examination) { x.node(settingOffsetsKept, "60") }, doctor.Warn, "kept for 1h0m0s", "offsets.retention.minutes=10080"},
		"offsets for the horizon":   {"offsets_retention", func(x *examination) { x.cfg.KeepFor = 30 * 24 * time.Hour }, doctor.Warn, "come back for 30 d", "offsets.retention.minutes=43200"},
		"transactions on one node":  {"transaction_log", func(x *examination) { x.node(settingTxnCopies, "1") }, doctor.Warn, "one copy", "transaction.state.log.replication.factor=3"},
		"transactions on one proof": {"transaction_log", func(x *examination) { x.node(settingTxnInSync, "1") }, doctor.Warn, "one of which", "transaction.state.log.min.isr=2"},
		"flush of each record":      {"log_flush", func(x *examination) { x.node(settingFlushMessages, "1") }, doctor.OK, "after 1 records", ""},
		"flush by time":             {"log_flush", func(x *examination) { x.node(settingFlushTime, "1000") }, doctor.OK, "every 1000 ms", ""},

		"a topic that is missing":  {"topics", func(x *examination) { x.missing = []string{"m"} }, doctor.Warn, "not there: m", "kafka-topics.sh --bootstrap-server h:9092 --create --topic m"},
		"a name that can't be":     {"topics", func(x *examination) { x.impossible = []string{`"a b"`} }, doctor.Bad, `"a b"`, "another name"},
		"no topic":                 {"topics", func(x *examination) { x.topics = nil }, doctor.Warn, "none is there", "--topic"},
		"no topic to judge":        {"retention", func(x *examination) { x.topics = nil }, doctor.OK, "no topic to look at", ""},
		"only hidden topics":       {"replication_factor", func(x *examination) { x.topics, x.hidden = nil, []string{"h"} }, doctor.Warn, "TOPIC_AUTHORIZATION_FAILED", "--operation Describe --operation DescribeConfigs --topic '*'"},
		"one copy":                 {"replication_factor", func(x *examination) { x.keep(2) }, doctor.Bad, "one copy, which dies with its node: order", `{"version":1,"partitions":[{"topic":"order","partition":0,"replicas":[2,1,3]},{"topic":"order","partition":1,"replicas":[2,3,1]}`},
		"one copy on one node":     {"replication_factor", func(x *examination) { x.keep(1); x.nodes = x.nodes[:1] }, doctor.Bad, "one copy", "run three nodes (seen now: 1)"},
		"one proof":                {"min_insync_replicas", func(x *examination) { x.set(settingInSync, "1") }, doctor.Bad, "1 of 3 copies", "--entity-name order --add-config min.insync.replicas=2"},
		"one copy, one proof":      {"min_insync_replicas", func(x *examination) { x.keep(1); x.set(settingInSync, "1") }, doctor.OK, "", ""},
		"more proofs than copies":  {"min_insync_replicas", func(x *examination) { x.keep(1, 2); x.set(settingInSync, "3") }, doctor.Bad, "3 of 2 copies: nothing can be published", `"replicas":[1,2,3]`},
		"too many proofs of three": {"min_insync_replicas", func(x *examination) { x.set(settingInSync, "4") }, doctor.Bad, "4 of 3", "min.insync.replicas=2"},
		"all copies as proof":      {"min_insync_replicas", func(x *examination) { x.keep(1, 2) }, doctor.Warn, "all 2 copies", "kafka-reassign-partitions.sh"},
		"unclean":                  {"unclean_leader_election", func(x *examination) { x.set(settingUnclean, "true") }, doctor.Bad, "may lead: order", "--entity-name order --add-config unclean.leader.election.enable=false"},
		"no leader":                {"leaders", func(x *examination) { x.keep(9); x.topics[0].partitions[2].Leader = -1 }, doctor.Bad, "no leader of partition 2: order", "node 9"},
		"a copy behind":            {"in_sync_now", func(x *examination) { x.topics[0].partitions[1].ISR = []int32{1, 3} }, doctor.Warn, "copies on node 2 are behind: order", "--under-replicated-partitions"},
		"a node behind everywhere": {"in_sync_now", func(x *examination) {
			for i := range x.topics[0].partitions {
				x.topics[0].partitions[i].ISR = []int32{1, 3}
			}
		}, doctor.Warn, "copies on node 2 are behind: order", "look at node 2;"},
		"too few to go on": {"in_sync_now", func(x *examination) { x.topics[0].partitions[1].ISR = []int32{1} }, doctor.Bad, "1 partitions take no events", "node 2, 3"},

		"kept for a day":             {"retention", func(x *examination) { x.set(settingKeepFor, "86400000") }, doctor.Bad, "kept for 1 d, and must be readable for 7 d: order", "retention.ms=604800000"},
		"kept for an hour less":      {"retention", func(x *examination) { x.cfg.KeepFor += time.Hour }, doctor.Bad, "order, payment", "retention.ms=608400000"},
		"kept for ever":              {"retention", func(x *examination) { x.set(settingKeepFor, "-1") }, doctor.OK, "7 d or longer", ""},
		"kept up to a size":          {"retention", func(x *examination) { x.set(settingKeepBytes, "1000") }, doctor.Warn, "keeps 1000 bytes", "retention.bytes=-1"},
		"retention of compacted":     {"retention", func(x *examination) { x.set(settingCleanup, "compact"); x.set(settingKeepFor, "1") }, doctor.OK, "", ""},
		"compacted":                  {"cleanup_policy", func(x *examination) { x.set(settingCleanup, "compact,delete") }, doctor.Bad, "compact,delete: order", "cleanup.policy=delete"},
		"small records only":         {"max_message_bytes", func(x *examination) { x.set(settingMaxBytes, "900000") }, doctor.Bad, "900000 bytes", "max.message.bytes=2101248"},
		"clocks in step":             {"timestamps", func(x *examination) { x.set(settingAhead, "1000") }, doctor.Warn, "differs by 1s", "message.timestamp.after.max.ms=3600000"},
		"clocks of the broker":       {"timestamps", func(x *examination) { x.set(settingAhead, "1000"); x.set(settingTimes, "LogAppendTime") }, doctor.OK, "", ""},
		"clocks of an older cluster": {"timestamps", func(x *examination) { delete(x.topics[0].settings, settingAhead) }, doctor.OK, "", ""},
		"one partition":              {"partition_count", func(x *examination) { x.topics[0].partitions = x.topics[0].partitions[:1] }, doctor.Warn, "one partition", "--partitions 12"},
		"one topic is hidden":        {"cleanup_policy", func(x *examination) { x.topics[0].settingsErr = kerr.TopicAuthorizationFailed }, doctor.Warn, "can't be looked at", "--topic '*'"},
		"all topics are hidden": {"cleanup_policy", func(x *examination) {
			for i := range x.topics {
				x.topics[i].settingsErr = kerr.TopicAuthorizationFailed
			}
		}, doctor.Warn, "can't be looked at", "--topic '*'"},
		"an unknown setting": {"cleanup_policy", func(x *examination) { delete(x.topics[0].settings, settingCleanup) }, doctor.Warn, "does not tell cleanup.policy", "look again"},

		"may not write":     {"topic_rights", func(x *examination) { x.may(kmsg.ACLOperationRead) }, doctor.Warn, "read and not write", "--allow-principal 'User:ANONYMOUS' --operation Write --topic order"},
		"may not read":      {"topic_rights", func(x *examination) { x.may(kmsg.ACLOperationWrite) }, doctor.Warn, "write and not read", "--operation Read --topic order"},
		"may nothing":       {"topic_rights", func(x *examination) { x.may(kmsg.ACLOperationDescribe) }, doctor.Bad, "neither", "--operation Write --operation Read"},
		"rights not told":   {"topic_rights", func(x *examination) { x.topics[0].may = nil }, doctor.Warn, "does not tell", "2.3"},
		"may not see":       {"topic_rights", func(x *examination) { x.hidden = []string{"h"} }, doctor.Bad, "may not even see: h", "--topic h"},
		"may not join":      {"group_rights", func(x *examination) { x.groups["g"] = []kadm.ACLOperation{kmsg.ACLOperationDescribe} }, doctor.Warn, "may see and not join: g", "--operation Read --group 'g'"},
		"no group":          {"group_rights", func(x *examination) { x.groups = nil }, doctor.OK, "no group is seen", ""},
		"groups not listed": {"group_rights", func(x *examination) { x.groupsErr = errors.New("broken\nwire") }, doctor.Warn, "broken wire", "look again"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, k := range soundCluster().checks() {
				if f := soundCluster().run(k); f.Verdict != doctor.OK || f.Fix != "" || f.Found == "" || f.Why == "" {
					t.Errorf("before anything is planted: %+v", f)
				}
			}
			x := soundCluster()
			c.plant(x)
			for _, k := range x.checks() {
				if k.name != c.check {
					continue
				}
				f := x.run(k)
				if f.Verdict != c.want || !strings.Contains(f.Found, c.found) || !strings.Contains(f.Fix, c.fix) || (f.Fix == "") != (f.Verdict == doctor.OK) || f.Found == "" {
					t.Errorf("%+v; want %s, %q, to be mended by %q", f, c.want, c.found, c.fix)
				}
				return
			}
			t.Fatalf("there is no check %s", c.check)
		})
	}
}

func TestManyTopicsWithOneFaultAreAFindingThatCanBeRead(t *testing.T) {
	x := soundCluster()
	for range 500 {
		x.topics = append(x.topics, soundTopic("t"))
		x.topics[len(x.topics)-1].name += strings.Repeat("x", len(x.topics)%240)
		x.topics[len(x.topics)-1].settings[settingUnclean] = "true"
	}
	d, err := x.unclean()
	if err != nil || !strings.Contains(d.Found, "and 490 more") || len(d.Found)+len(d.Fix) > 8<<10 {
		t.Errorf("%v: %d bytes: %+v", err, len(d.Found)+len(d.Fix), d)
	}
}

func TestACommandNamesTheAccountAndNeverItsPassword(t *testing.T) {
	at, err := parseURL("kafka://o%27ann:canary@a:1,b:2")
	if err != nil {
		t.Fatal(err)
	}
	tools := toolsOf("kafka://o%27ann:canary@a:1,b:2", at)
	got := tools.grant([]string{"Read"}, "--topic t")
	if want := "kafka-acls.sh --bootstrap-server a:1,b:2 --command-config admin.properties --add --allow-principal 'User:oann' --operation Read --topic t"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
