package kafka_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/settlemq/settle/doctor"
)

// reassign does what a fix says with kafka-reassign-partitions.sh, and waits
// until the copies are made.
func (r *rig) reassign(t *testing.T, fix string, copies int) {
	t.Helper()
	_, text, _ := strings.Cut(fix, "echo '")
	text, _, ok := strings.Cut(text, "' > copies.json && kafka-reassign-partitions.sh ")
	var plan struct {
		Partitions []struct {
			Topic     string  `json:"topic"`
			Partition int32   `json:"partition"`
			Replicas  []int32 `json:"replicas"`
		} `json:"partitions"`
	}
	if err := json.Unmarshal([]byte(text), &plan); err != nil || !ok {
		t.Fatalf("the fix is no plan: %v: %s", err, fix)
	}
	var req kadm.AlterPartitionAssignmentsReq
	for _, p := range plan.Partitions {
		req.Assign(p.Topic, p.Partition, p.Replicas)
	}
	done, err := r.admin.AlterPartitionAssignments(t.Context(), req)
	if err == nil {
		err = done.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	awaitSeen(t, "copies", func() bool {
		topics, err := r.admin.Metadata(kadm.WithAuthorizedOps(t.Context()), r.topic)
		for _, p := range topics.Topics[r.topic].Partitions {
			if len(p.Replicas) != copies || len(p.ISR) != copies {
				return false
			}
		}
		return err == nil
	})
}

// says waits until the doctor says so, whichever node it asks, and returns the
// whole finding: nodes learn one after the other what was changed.
func (r *rig) says(t *testing.T, check string, verdict doctor.Verdict, found string) (f doctor.Finding) {
	t.Helper()
	awaitSeen(t, check+": "+string(verdict)+" "+found, func() bool {
		f = diagnose(t, r.at, doctorConfig(r.topic))[check]
		return f.Verdict == verdict && strings.Contains(f.Found, found)
	})
	return f
}

// sound waits until the doctor finds nothing but what is named.
func (r *rig) sound(t *testing.T, but ...string) {
	t.Helper()
	var bad []doctor.Finding
	defer func() {
		if t.Failed() {
			t.Logf("the last findings are %+v", bad)
		}
	}()
	awaitSeen(t, "a sound cluster", func() bool {
		bad = nil
		for _, f := range diagnose(t, r.at, doctorConfig(r.topic)) {
			if f.Verdict != doctor.OK && !slices.Contains(but, f.Check) {
				bad = append(bad, f)
			}
		}
		return len(bad) == 0
	})
}

func TestADoctorFindsNothingInThreeSoundNodesOfKafkaAndWhatIsPlantedThere(t *testing.T) {
	c := threeForTest(t)
	r := newRig(t, c.at)
	r.create(t, 6)
	plan := r.says(t, "replication_factor", doctor.Bad, "one copy").Fix
	r.says(t, "min_insync_replicas", doctor.Bad, "2 of 1 copies")
	r.sound(t, "replication_factor", "min_insync_replicas")
	r.reassign(t, plan, 3)
	r.sound(t)
	for _, p := range []struct {
		value   string
		verdict doctor.Verdict
		found   string
	}{
		{"1", doctor.Bad, "1 of 3 copies"},
		{"3", doctor.Warn, "all 3 copies"},
		{"4", doctor.Bad, "4 of 3 copies"},
	} {
		r.alter(t, "min.insync.replicas", p.value)
		r.says(t, "min_insync_replicas", p.verdict, p.found)
	}
	r.alter(t, "min.insync.replicas", "2")
	r.sound(t)
	c.run("kill", "kafka3-2")
	r.says(t, "nodes", doctor.Warn, "2 are seen")
	if f := r.says(t, "in_sync_now", doctor.Warn, "copies on node 2 are behind"); !strings.Contains(f.Fix, "look at node 2;") {
		t.Errorf("of a node that is away: %+v", f)
	}
	r.says(t, "controller_quorum", doctor.Warn, "do not keep up: 2 (")
	c.run("start", "kafka3-2")
	r.sound(t)
}
