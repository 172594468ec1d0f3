package rocketmq_test

import (
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rocketmq"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/doctor/doctortest"
	"github.com/settlemq/settle/internal/services"
)

func TestAMasterThatWaitsForNobodyAcknowledgesWhatItsSlaveDoesNotHaveAndIsNamed(t *testing.T) {
	onlyWhenAll(t)
	t.Setenv("SETTLE_ROCKETMQ_CONF", "inSyncReplicas=1") // as it is unless it is set
	server := services.Up(t, []string{"rocketmqha"})[0]
	r := newRig(t, server.URL())
	cfg := r.config()
	cfg.Timeout = 10 * time.Second // longer than a master waits for its slave
	b := closing(t, r.open(t, cfg))
	published(t, b, events(r.topic, "k", 1, 1))
	examined := func() map[string]doctor.Finding {
		return doctortest.Diagnose(t, rocketmq.NewDoctor(server.URL(), rocketmq.DoctorConfig{Topics: []string{r.topic}}))
	}
	doctortest.Says(t, examined(), "replication", doctor.Bad, "SYNC_MASTER waits for no slave", "-k inSyncReplicas -v 2")
	server.Part("s").Pause()
	published(t, b, events(r.topic, "k", 1, 2)) // nobody but the master has it
	server.Part("s").Resume()

	nodes, err := r.wire.Cluster(t.Context(), r.names[0])
	if err != nil || len(nodes) != 2 || !nodes[0].Master() || nodes[1].Master() {
		t.Fatalf("the nodes are %+v, %v", nodes, err)
	}
	if err := r.wire.SetSettings(t.Context(), nodes[0].Addr, map[string]string{"inSyncReplicas": "2"}); err != nil {
		t.Fatal(err)
	}
	by := examined()
	doctortest.Says(t, by, "replication", doctor.OK, "2 nodes have an event", "")
	doctortest.Says(t, by, "flush_disk", doctor.OK, "SYNC_FLUSH", "")
	publishedInTime(t, b, events(r.topic, "k", 1, 3))
	doctortest.Says(t, examined(), "slaves_now", doctor.OK, "none is behind", "")
	leads, whole, err := r.tap(t).Leads(t.Context(), r.topic, nil)
	if err != nil || !whole || leads[nodes[0].Addr] != queues || len(leads) != 2 {
		t.Errorf("%v lead, all in place: %v, %v", leads, whole, err)
	}

	server.Part("s").Kill()
	got := b.Publish(t.Context(), events(r.topic, "k", 1, 4))
	if got[0].Err == nil || settle.ScopeOf(got[0].Err) != settle.ScopeBroker {
		t.Errorf("without the slave it says %v", got[0].Err)
	}
	for { // the master notices in its own time
		f := examined()["replication"]
		if f.Verdict == doctor.Bad && strings.Contains(f.Found, "there is no slave") {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	if _, whole, err := r.tap(t).Leads(t.Context(), r.topic, nil); err != nil || whole {
		t.Errorf("without the slave all are in place: %v, %v", whole, err)
	}
	server.Part("s").Start()
	publishedInTime(t, b, events(r.topic, "k", 1, 4))
	if err := r.wire.SetSettings(t.Context(), nodes[0].Addr, map[string]string{"flushDiskType": "ASYNC_FLUSH", "fileReservedTime": "1"}); err != nil {
		t.Fatal(err)
	}
	by = examined()
	doctortest.Says(t, by, "flush_disk", doctor.Warn, "ASYNC_FLUSH", "SYNC_FLUSH")
	doctortest.Says(t, by, "file_reserved_time", doctor.Bad, "kept for 1h0m0s", "-v 168")
}

func TestADoctorThatIsNotLetInSaysWhatItDidNotSee(t *testing.T) {
	onlyWhenAll(t)
	t.Setenv("SETTLE_ROCKETMQ_CONF", closed)
	server := services.Up(t, []string{"rocketmq"})[0]
	by := doctortest.Diagnose(t, rocketmq.NewDoctor(server.URL(), rocketmq.DoctorConfig{}))
	for _, check := range []string{"flush_disk", "replication", "file_reserved_time", "transactions", "auto_create"} {
		doctortest.Says(t, by, check, doctor.Warn, "can't be looked at: RocketMQ at ", "the right to look")
	}
	_, host, _ := strings.Cut(server.URL(), "://")
	by = doctortest.Diagnose(t, rocketmq.NewDoctor("rocketmq://root:r00t-s3cret@"+host, rocketmq.DoctorConfig{Groups: []string{"points"}}))
	doctortest.Says(t, by, "flush_disk", doctor.OK, "SYNC_FLUSH", "")
	doctortest.Says(t, by, "groups", doctor.Warn, "has to be allowed to make it: broker-a points", "updateSubGroup")
}
