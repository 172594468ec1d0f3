package rabbitmq_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle/broker/rabbitmq"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/doctor/doctortest"
)

// awaitSays waits until a check has found this: figures of nodes are some
// seconds old.
func awaitSays(t *testing.T, at string, cfg rabbitmq.DoctorConfig, check string, verdict doctor.Verdict, found string) (f doctor.Finding) {
	t.Helper()
	await(t, check+": "+string(verdict)+" "+found, func() bool {
		f = diagnose(t, at, cfg)[check]
		return f.Verdict == verdict && strings.Contains(f.Found, found)
	})
	return f
}

func TestADoctorFindsWhatIsPlantedIntoAServerOfRabbitMQ(t *testing.T) {
	o := newOwn(t)
	at := managed(t, o.At().String())
	cfg := rabbitmq.DoctorConfig{Topics: []string{"none"}}
	awaitSays(t, at, cfg, "alarms", doctor.OK, "")
	o.ctl("set_vm_memory_high_watermark", "absolute", "1MB")
	awaitSays(t, at, cfg, "alarms", doctor.Bad, "memory: ")
	o.ctl("set_vm_memory_high_watermark", "0.4")
	awaitSays(t, at, cfg, "alarms", doctor.OK, "")
	o.ctl("set_disk_free_limit", "2GB")
	awaitSays(t, at, cfg, "disk_limit", doctor.OK, "")
	o.ctl("set_disk_free_limit", "50000GB")
	awaitSays(t, at, cfg, "alarms", doctor.Bad, "disk: ")
	o.ctl("set_disk_free_limit", "50MB")
	awaitSays(t, at, cfg, "disk_limit", doctor.Warn, "50000000 bytes")
	o.ctl("eval", "application:set_env(rabbit, heartbeat, 1).")
	doctortest.Says(t, diagnose(t, at, cfg), "heartbeat", doctor.Warn, "every 1s", "heartbeat = 60")
	o.ctl("eval", "application:set_env(rabbit, heartbeat, 60).")
	o.ctl("eval", "rabbit_registry:unregister(exchange, <<\"x-consistent-hash\">>).")
	doctortest.Says(t, diagnose(t, at, cfg), "plugins", doctor.Bad, "no consistent hash", "rabbitmq-plugins enable")
}

func TestADoctorFindsNothingInThreeSoundNodesOfRabbitMQAndWhatIsPlantedThere(t *testing.T) {
	c := newCluster(t)
	r := newRig(t, c.at)
	r.introduce(t, "g")
	// The API of the first node, which is not killed.
	first, _, _ := strings.Cut(c.at, ",")
	at := c.at + "?management=" + manage(t, first).base
	m := manage(t, first)
	cfg := rabbitmq.DoctorConfig{Topics: []string{r.topic}, Groups: []string{"g"}}
	// These hold of every server of the tests.
	known := []string{"broker_version", "disk_limit", "network_partitions"}
	await(t, "a sound cluster", func() bool {
		for _, f := range diagnose(t, at, cfg) {
			if f.Verdict != doctor.OK && !slices.Contains(known, f.Check) {
				t.Logf("%+v", f)
				return false
			}
		}
		return true
	})
	if _, err := r.ch.QueueDelete(r.topic+".g.3", false, false, false); err != nil {
		t.Fatal(err)
	}
	one := amqp.Table{"x-queue-type": "quorum", "x-single-active-consumer": true, "x-quorum-initial-group-size": int32(1)}
	if _, err := r.ch.QueueDeclare(r.topic+".g.3", true, false, false, false, one); err != nil {
		t.Fatal(err)
	}
	if err := r.ch.QueueBind(r.topic+".g.3", "1", r.topic+".g", false, nil); err != nil {
		t.Fatal(err)
	}
	f := awaitSays(t, at, cfg, "queue_members", doctor.Bad, "one member, and the events die with its disk: "+r.topic+".g.3")
	if !strings.Contains(f.Fix, "rabbitmq-queues grow") {
		t.Errorf("what mends it is %q", f.Fix)
	}
	few, err := rabbitmq.NewDoctor(at, cfg).Durability(t.Context())
	if err != nil || doctor.Worst(few) != doctor.Bad {
		t.Errorf("of durability it says %+v, %v", few, err)
	}
	m.ask(http.MethodDelete, "/api/queues/%2F/"+r.topic+".g.3", nil)
	r.introduce(t, "g")
	awaitSays(t, at, cfg, "queue_members", doctor.OK, "three")
	c.run("kill", "rabbitmq3-2")
	awaitSays(t, at, cfg, "nodes", doctor.Warn, "1 of 3 do not run")
	awaitSays(t, at, cfg, "members_online", doctor.Warn, "not on settle-")
}
