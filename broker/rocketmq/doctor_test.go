package rocketmq_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/broker/rocketmq"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/doctor/doctortest"
	"github.com/settlemq/settle/internal/services"
)

// probe is a topic of a test's own, and who asks for it.
type probe struct {
	c      *remoting.Client
	names  string
	master remoting.Node
}

func newProbe(t *testing.T) (p probe, at string) {
	t.Helper()
	at = services.URL(t, "SETTLE_TEST_ROCKETMQ", "rocketmq")
	p = probe{c: remoting.New(remoting.Config{Timeout: time.Minute}), names: strings.TrimPrefix(at, "rocketmq://")}
	t.Cleanup(p.c.Close)
	nodes, err := p.c.Cluster(t.Context(), p.names)
	if err != nil || len(nodes) == 0 {
		t.Fatalf("the nodes are %v, %v", nodes, err)
	}
	p.master = nodes[0]
	return p, at
}

// topic makes one, and waits until name servers know it.
func (p probe) topic(t *testing.T, of remoting.Topic) string {
	t.Helper()
	of.Name = fmt.Sprintf("probe_%x", rand.Uint64())
	if err := p.c.SetTopic(t.Context(), p.master.Addr, of); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.c.DeleteTopic(context.Background(), p.master.Addr, of.Name); err != nil {
			t.Error(err)
		}
		if err := p.c.ForgetTopic(context.Background(), p.names, of.Name); err != nil {
			t.Error(err)
		}
	})
	for {
		_, err := p.c.Route(t.Context(), p.names, of.Name)
		if err == nil {
			return of.Name
		}
		if !remoting.IsRefusal(err, remoting.TopicMissing) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestDoctorNamesWhatIsUnsafeOnARealServer(t *testing.T) {
	p, at := newProbe(t)
	shut := p.topic(t, remoting.Topic{Read: 1, Write: 2, Perm: remoting.PermRead})
	sound := p.topic(t, remoting.Topic{Read: 2, Write: 2, Perm: remoting.PermRead | remoting.PermWrite})
	if err := p.c.SetOrder(t.Context(), p.names, sound, p.master.Name+":3"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.c.DeleteOrder(context.Background(), p.names, sound); err != nil {
			t.Error(err)
		}
	})
	by := doctortest.Diagnose(t, rocketmq.NewDoctor(at, rocketmq.DoctorConfig{Topics: []string{shut, sound, "not_there", "no.name"}, Groups: []string{"g"}}))
	says := func(check string, verdict doctor.Verdict, found, fix string) {
		t.Helper()
		doctortest.Says(t, by, check, verdict, found, fix)
	}
	says("broker_version", doctor.OK, "5.", "")
	says("name_servers", doctor.Warn, "there is one: "+p.names, "run two or three")
	says("encryption", doctor.OK, "not needed", "")
	says("nodes", doctor.Warn, "the only master", "two or more")
	says("clock", doctor.OK, "agree", "")
	says("auto_create", doctor.OK, "off", "")
	says("groups", doctor.Warn, "mistyped", "updateSubGroup")
	says("flush_disk", doctor.OK, "SYNC_FLUSH", "")
	says("replication", doctor.Bad, "there is no slave: "+p.master.Name, "brokerRole=SLAVE")
	says("slaves_now", doctor.OK, "none is behind", "")
	says("file_reserved_time", doctor.Bad, "kept for 4h0m0s, and must be readable for 7 d", "-k fileReservedTime -v 168")
	says("max_message_size", doctor.OK, "", "")
	says("transactions", doctor.Warn, "60 sweeps of 2s", "transactionCheckMax")
	says("topics", doctor.Warn, "not there: not_there", "settle serve makes it")
	says("topics", doctor.Warn, `no names of topics: "no.name"`, "")
	says("topic_permission", doctor.Bad, "nothing may be written: "+shut, "-p 6")
	says("topic_queues", doctor.Bad, "2 queues are written and 1 of them read: "+shut, "-r 2")
	says("topic_order", doctor.Bad, p.master.Name+"/2", "updateTopic")
	says("topic_order", doctor.Bad, "no list of its queues: "+shut, "settle serve")
}

func TestDurabilityAsksOnlyWhatAnAcknowledgementRestsOn(t *testing.T) {
	at := services.URL(t, "SETTLE_TEST_ROCKETMQ", "rocketmq")
	found, err := rocketmq.NewDoctor(at, rocketmq.DoctorConfig{}).Durability(t.Context())
	if err != nil || len(found) != 2 || found[0].Check != "flush_disk" || found[1].Check != "replication" || doctor.Worst(found) != doctor.Bad {
		t.Errorf("it says %+v, %v", found, err)
	}
}

func TestTheDoctorsPageListsTheChecksOfRocketMQ(t *testing.T) {
	at := services.URL(t, "SETTLE_TEST_ROCKETMQ", "rocketmq")
	found, err := rocketmq.NewDoctor(at, rocketmq.DoctorConfig{}).Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	doctortest.Listed(t, "../../docs/doctor.md", "RocketMQ", found)
}

func TestADoctorOfAServerThatIsAwaySaysWhereAndShowsNoSecret(t *testing.T) {
	_, err := rocketmq.NewDoctor("rocketmq://ann:c4n4ry@127.0.0.1:1", rocketmq.DoctorConfig{}).Check(t.Context())
	if err == nil || strings.Contains(err.Error(), "c4n4ry") || !strings.Contains(err.Error(), "look at RocketMQ at 127.0.0.1:1: nothing listens there") {
		t.Errorf("it says %v", err)
	}
}
