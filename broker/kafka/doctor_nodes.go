package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/settlemq/settle/doctor"
)

// Settings of the nodes.
const (
	settingAutoCreate    = "auto.create.topics.enable"
	settingCopies        = "default.replication.factor"
	settingOffsetsCopies = "offsets.topic.replication.factor"
	settingOffsetsKept   = "offsets.retention.minutes"
	settingTxnCopies     = "transaction.state.log.replication.factor"
	settingTxnInSync     = "transaction.state.log.min.isr"
	settingFlushMessages = "log.flush.interval.messages"
	settingFlushTime     = "log.flush.interval.ms"
)

func nodeSettings() []string {
	return []string{settingAutoCreate, settingCopies, settingInSync, settingUnclean, settingOffsetsCopies, settingOffsetsKept,
		settingTxnCopies, settingTxnInSync, settingFlushMessages, settingFlushTime}
}

const (
	// wantedCopies outlive a node that is lost while another is being restarted.
	wantedCopies = 3
	// behindAtMost is how long a controller may be silent: it fetches all the time.
	behindAtMost = 10 * time.Second
	skewAtMost   = time.Second
)

func (x *examination) nodeChecks() []check {
	return []check{
		{"broker_version", "older clusters lack what the client uses; while nodes differ, they behave as the oldest", x.version},
		{"nodes", "three copies of an event need three nodes: two of them take over while one is away", x.enoughNodes},
		{"controller_quorum", "the controllers know which topics there are and who leads them: without a majority of them nothing moves, and without any of their disks it is all gone", x.controllers},
		{"disks", "a node whose disk is full ends, and all of them fill up alike", x.freeSpace},
		{"cluster_clock", "how long records are kept, and which times are refused, goes by the cluster's clock and by that of whoever publishes", x.clock},
		{"new_topics", "a topic that is made on first use, by settle serve or another program, has what the cluster gives", x.newTopics},
		{"auto_create", "a topic whose name is mistyped is made, takes the events, and nobody reads it", x.autoCreate},
		{"offsets_topic", "it holds the position of every consumer group; without it they all begin anew", x.offsetsTopic},
		{"offsets_retention", "a group that is away for longer loses its position: it begins anew, or, as it is set, behind all that it has missed", x.offsetsRetention},
		{"transaction_log", "producers that publish in transactions, as exactly-once streams do, rest on it; Settle does not", x.transactionLog},
		{"log_flush", "Kafka acknowledges from memory: an event outlives a power cut because other nodes have it, not because it is on a disk", x.logFlush},
	}
}

// value is a setting of the nodes, the same on all of them or the list of what
// there is.
func (x *examination) value(setting string) (values []string, err error) {
	for _, node := range x.nodes {
		if v, is := x.settings[setting][node]; is && !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return nil, errors.Join(x.settingsErr, missingSetting(x.settingsErr, setting))
	}
	return values, nil
}

func missingSetting(because error, setting string) error {
	if because != nil {
		return nil
	}
	return fmt.Errorf("the nodes have no %s", setting)
}

// least is the smallest number that nodes have of a setting.
func (x *examination) least(setting string) (int64, error) {
	values, err := x.value(setting)
	if err != nil {
		return 0, err
	}
	least := int64(-1)
	for _, v := range values {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", setting, err)
		}
		if least < 0 || n < least {
			least = n
		}
	}
	return least, nil
}

func (x *examination) version() (doctor.Diagnosis, error) {
	var all []string
	for _, node := range x.nodes {
		if v := x.versions[node]; v != "" && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	var silent []string
	for _, node := range x.nodes {
		if x.versions[node] == "" {
			silent = append(silent, strconv.Itoa(int(node)))
		}
	}
	switch {
	case len(silent) > 0:
		return doctor.Diagnose(doctor.Warn, "no answer of node "+strings.Join(silent, ", "), "look at that node, and at the address that it advertises (advertised.listeners): clients go there"), nil
	case len(all) > 1:
		return doctor.Diagnose(doctor.Warn, "nodes differ: "+strings.Join(all, ", "), "bring all nodes to the same version"), nil
	}
	return doctor.Sound("%s", strings.Join(all, "")), nil
}

func (x *examination) enoughNodes() (doctor.Diagnosis, error) {
	switch n := len(x.nodes); n {
	case 1:
		return doctor.Diagnose(doctor.Warn, "1 is seen: while it is away, nothing is published or read", "run three, each on a machine of its own"), nil
	case 2:
		return doctor.Diagnose(doctor.Warn, "2 are seen: while one of them is away, there is no second copy", "start the third, or run one"), nil
	default:
		return doctor.Sound("%d", n), nil
	}
}

func (x *examination) controllers() (doctor.Diagnosis, error) {
	if x.quorumErr != nil {
		return doctor.Diagnosis{}, x.quorumErr
	}
	var late []string
	for voter, silent := range x.quorum.silent {
		if silent > behindAtMost {
			late = append(late, fmt.Sprintf("%d (for %s)", voter, silent.Round(time.Second)))
		}
	}
	slices.Sort(late)
	n := len(x.quorum.silent)
	const three = "run three or five controllers, each on a disk of its own; format the new ones and kafka-metadata-quorum.sh add-controller"
	switch {
	case n == 1:
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("one controller, %d: if its disk is lost, so are all topics", x.quorum.leader), three), nil
	case len(late) > 0:
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("of %d controllers these do not keep up: %s", n, strings.Join(late, ", ")), "look at those nodes; kafka-metadata-quorum.sh "+x.tools.at+" describe --replication shows them"), nil
	case n%2 == 0:
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("%d controllers bear the loss of no more than %d would", n, n-1), three), nil
	}
	return doctor.Sound("%d controllers, led by %d", n, x.quorum.leader), nil
}

func (x *examination) clock() (doctor.Diagnosis, error) {
	if x.quorumErr != nil {
		return doctor.Diagnosis{}, x.quorumErr
	}
	if x.quorum.doubt < 0 {
		return doctor.Diagnosis{}, errors.New("controllers of this version do not tell the time")
	}
	if x.quorum.skew.Abs() > skewAtMost+x.quorum.doubt {
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("that of the leading controller is %s ahead of this machine's", x.quorum.skew.Round(time.Millisecond)), "synchronize the clocks (chrony, ntpd) of all nodes and of this machine"), nil
	}
	return doctor.Sound("the leading controller's agrees with this machine's"), nil
}

// newTopics is bad where such a topic would be made for what was asked for.
func (x *examination) newTopics() (doctor.Diagnosis, error) {
	copies, err := x.least(settingCopies)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	inSync, err := x.least(settingInSync)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	// Where nodes don't have it, it is off.
	unclean, _ := x.value(settingUnclean)
	var found, fixes []string
	if copies == 1 {
		found, fixes = append(found, "one copy, which dies with its node"), append(fixes, x.threeNodes()+x.tools.inFile(settingCopies, "3"))
	} else if inSync == 1 {
		found = append(found, fmt.Sprintf("%d copies, one of which is enough to acknowledge an event", copies))
	}
	if inSync == 1 && (copies > 1 || len(x.nodes) > 1) {
		fixes = append(fixes, x.tools.setForAll(settingInSync, "2"))
	}
	if slices.Contains(unclean, "true") {
		found, fixes = append(found, "a copy that is behind may lead"), append(fixes, x.tools.setForAll(settingUnclean, "false"))
	}
	if len(found) == 0 {
		return doctor.Sound("%d copies, %d of which have it before an event counts as acknowledged", copies, inSync), nil
	}
	d := doctor.Diagnose(doctor.Warn, strings.Join(found, "; "), strings.Join(fixes, "; "))
	if len(x.missing) > 0 {
		d.Verdict, d.Found = doctor.Bad, d.Found+"; to be made are "+doctor.Enumerated(x.missing)
		if len(x.nodes) >= wantedCopies {
			d.Fix += "; or make the topics beforehand: " + x.tools.create(x.missing[0])
		}
	}
	return d, nil
}

// threeNodes says what must be there before there can be three copies.
func (x *examination) threeNodes() string {
	if len(x.nodes) >= wantedCopies {
		return ""
	}
	return fmt.Sprintf("run three nodes (seen now: %d); then ", len(x.nodes))
}

func (x *examination) autoCreate() (doctor.Diagnosis, error) {
	values, err := x.value(settingAutoCreate)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	if slices.Contains(values, "true") {
		return doctor.Diagnose(doctor.Warn, "on", x.tools.inFile(settingAutoCreate, "false")), nil
	}
	return doctor.Sound("off"), nil
}

// kept is how many copies there are of one of the cluster's own topics, or
// will be when it is made.
func (x *examination) kept(topic, setting string) (copies int, made bool, err error) {
	if partitions := x.internal[topic]; len(partitions) > 0 {
		return fewest(partitions), true, nil
	}
	n, err := x.least(setting)
	return int(n), false, err
}

func fewest(partitions []kadm.PartitionDetail) int {
	n := len(partitions[0].Replicas)
	for _, p := range partitions {
		n = min(n, len(p.Replicas))
	}
	return n
}

func (x *examination) moreCopies(topic, setting string, made bool) string {
	switch {
	case len(x.nodes) < wantedCopies:
		return x.threeNodes() + "settle doctor prints what gives " + topic + " its copies"
	case made:
		return x.tools.copies(wantedCopies, x.nodes, x.internal[topic]...)
	}
	return x.tools.inFile(setting, "3")
}

func (x *examination) offsetsTopic() (doctor.Diagnosis, error) {
	copies, made, err := x.kept(offsetsTopic, settingOffsetsCopies)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	if copies == 1 {
		return doctor.Diagnose(doctor.Bad, "one copy, which dies with its node", x.moreCopies(offsetsTopic, settingOffsetsCopies, made)), nil
	}
	return doctor.Sound("%d copies", copies), nil
}

func (x *examination) offsetsRetention() (doctor.Diagnosis, error) {
	minutes, err := x.least(settingOffsetsKept)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	kept := time.Duration(minutes) * time.Minute
	if kept < x.cfg.KeepFor {
		want := int64((x.cfg.KeepFor + time.Minute - 1) / time.Minute)
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("positions of a group that is away are kept for %s, consumers are to come back for %s", span(kept), span(x.cfg.KeepFor)), x.tools.inFile(settingOffsetsKept, strconv.FormatInt(want, 10))), nil
	}
	return doctor.Sound("%s", span(kept)), nil
}

func (x *examination) transactionLog() (doctor.Diagnosis, error) {
	copies, made, err := x.kept(transactionsTopic, settingTxnCopies)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	inSync, err := x.least(settingTxnInSync)
	switch {
	case copies == 1:
		return doctor.Diagnose(doctor.Warn, "one copy, which dies with its node", x.moreCopies(transactionsTopic, settingTxnCopies, made)), nil
	case err != nil:
		return doctor.Diagnosis{}, err
	case inSync == 1:
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("%d copies, one of which is enough to acknowledge", copies), x.tools.inFile(settingTxnInSync, "2")), nil
	}
	return doctor.Sound("%d copies, %d of which have it before it counts", copies, inSync), nil
}

// logFlush only tells: flushing each record costs more than a second copy does,
// and proves less.
func (x *examination) logFlush() (doctor.Diagnosis, error) {
	messages, err := x.least(settingFlushMessages)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	every, _ := x.value(settingFlushTime)
	switch {
	case messages < 1<<31:
		return doctor.Sound("nodes write to their disks after %d records of a partition", messages), nil
	case strings.Join(every, "") != "":
		return doctor.Sound("nodes write to their disks every %s ms", strings.Join(every, " or ")), nil
	}
	return doctor.Sound("nodes write to their disks when the operating system does; an event is safe with its copies"), nil
}

// span writes a time in days where it is some.
func span(d time.Duration) string {
	if d >= 24*time.Hour && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d d", d/(24*time.Hour))
	}
	return d.String()
}
