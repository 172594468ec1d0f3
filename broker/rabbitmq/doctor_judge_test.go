package rabbitmq

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle/doctor"
)

func TestADoctorJudgesWhatTheServerOfTheTestsIsNot(t *testing.T) {
	seen := func(version string, every time.Duration, at address) *examination {
		conn := &amqp.Connection{Properties: amqp.Table{"version": version}, Config: amqp.Config{Heartbeat: every}}
		return &examination{s: &session{conn: conn}, at: at}
	}
	here := address{hosts: []string{"127.0.0.1:1", "localhost:1", "[::1]:1"}, user: "ann"}
	for _, c := range []struct {
		x       *examination
		check   string
		verdict doctor.Verdict
		found   string
	}{
		{seen("4.2.1", 5*time.Second, here), "broker_version", doctor.OK, "4.2.1"},
		{seen("3.13.7", 5*time.Second, here), "broker_version", doctor.Warn, "no fixes"},
		{seen("3.9.29", 5*time.Second, here), "broker_version", doctor.Bad, "older than 3.10"},
		{seen("", 5*time.Second, here), "broker_version", doctor.Warn, `version ""`},
		{seen("x.y", 5*time.Second, here), "broker_version", doctor.Warn, `version "x.y"`},
		{seen("4.2.1", 5*time.Second, here), "encryption", doctor.OK, "this machine"},
		{seen("4.2.1", 5*time.Second, address{hosts: []string{"127.0.0.1:1", "mq.example:5672"}}), "encryption", doctor.Warn, "not encrypted: mq.example:5672"},
		{seen("4.2.1", 5*time.Second, address{hosts: []string{"10.0.0.1:5671"}, tls: &tls.Config{}}), "encryption", doctor.OK, "TLS"},
		{seen("4.2.1", 5*time.Second, here), "account", doctor.OK, "ann"},
		{seen("4.2.1", 5*time.Second, address{user: "guest"}), "account", doctor.Warn, "guest"},
		{seen("4.2.1", 5*time.Second, here), "heartbeat", doctor.OK, "every 5s"},
		{seen("4.2.1", time.Second, here), "heartbeat", doctor.Warn, "loses its connection"},
		{seen("4.2.1", time.Hour, here), "heartbeat", doctor.Warn, "keeps its queues"},
	} {
		for _, judge := range c.x.serverChecks() {
			if judge.name != c.check {
				continue
			}
			if f := c.x.run(judge); f.Verdict != c.verdict || !strings.Contains(f.Found, c.found) || (f.Verdict == doctor.OK) != (f.Fix == "") {
				t.Errorf("%+v; want %s and %q", f, c.verdict, c.found)
			}
		}
	}
}
