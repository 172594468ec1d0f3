package rabbitmq

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settlemq/settle/doctor"
)

const (
	// oldestMajor.oldestMinor has all that queues are declared with, keptMajor
	// still gets fixes.
	oldestMajor, oldestMinor, keptMajor = 3, 10, 4
	// skewAtMost is above the second to which the API tells the time.
	skewAtMost = 2 * time.Second
	// heartbeatAtLeast is what a healthy process under load can keep.
	heartbeatAtLeast, heartbeatAtMost = 5 * time.Second, time.Minute
)

func (x *examination) serverChecks() []check {
	return []check{
		{"broker_version", "older servers lack what queues are declared with; those that get no fixes keep their faults", x.version},
		{"management", "AMQP tells little of a cluster: what is copied where, and which policies apply, only the management API does", x.managed},
		{"encryption", "without it passwords and events can be read on their way", x.encrypted},
		{"account", "everybody knows the user that every server begins with", x.account},
		{"heartbeat", "it is how soon a side that is gone is noticed", x.heartbeat},
		{"clock", "how old an event is goes by the clock of who appended it; logs are compared by the server's", x.clock},
		{"plugins", "the exchanges of groups deal out events by consistent hash", x.plugins},
		{"rights", "publishing needs write, declaring groups configure, and consuming read", x.allowed},
	}
}

func (x *examination) serverVersion() (text string, major, minor int) {
	text, _ = x.s.conn.Properties["version"].(string)
	parts := strings.SplitN(text, ".", 3)
	if len(parts) < 2 {
		return text, 0, 0
	}
	major, errMajor := strconv.Atoi(parts[0])
	minor, errMinor := strconv.Atoi(parts[1])
	if errMajor != nil || errMinor != nil {
		return text, 0, 0
	}
	return text, major, minor
}

func (x *examination) version() (doctor.Diagnosis, error) {
	text, major, minor := x.serverVersion()
	const upgrade = "upgrade to a release of RabbitMQ that gets fixes, one minor version after the other, and enable all feature flags before each"
	switch {
	case major == 0:
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("it calls its version %q", text), "use RabbitMQ; other servers that speak AMQP 0-9-1 were not tried"), nil
	case major < oldestMajor || major == oldestMajor && minor < oldestMinor:
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("%s: older than %d.%d, it drops what is delivered too often", text, oldestMajor, oldestMinor), upgrade), nil
	case major < keptMajor:
		return doctor.Diagnose(doctor.Warn, text+": it gets no fixes any more", upgrade), nil
	}
	return doctor.Sound("%s", text), nil
}

func (x *examination) managed() (doctor.Diagnosis, error) {
	if x.overviewErr != nil {
		return doctor.Diagnosis{}, x.overviewErr
	}
	return doctor.Sound("it answers"), nil
}

func (x *examination) encrypted() (doctor.Diagnosis, error) {
	if x.at.tls != nil {
		return doctor.Sound("TLS"), nil
	}
	var p doctor.Problems
	for _, h := range x.at.hosts {
		host, _, _ := net.SplitHostPort(h)
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			p.Add(doctor.Warn, h, "not encrypted", "listeners.ssl.default = 5671 and ssl_options in rabbitmq.conf; then amqps://, or tls=true, in the URL")
		}
	}
	return p.Diagnosis("not needed: the server is reached on this machine"), nil
}

func (x *examination) account() (doctor.Diagnosis, error) {
	if x.at.user == "guest" {
		return doctor.Diagnose(doctor.Warn, "guest", "rabbitmqctl add_user settle PASSWORD, set_permissions as docs/brokers/rabbitmq.md says, and rabbitmqctl delete_user guest"), nil
	}
	return doctor.Sound("%s", x.at.user), nil
}

func (x *examination) heartbeat() (doctor.Diagnosis, error) {
	every := x.s.conn.Config.Heartbeat
	const fix = "heartbeat = 60 in rabbitmq.conf; each client may ask for less, and Settle asks for 5 s"
	switch {
	case every < heartbeatAtLeast:
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("the server wants one every %s: a busy process loses its connection", every), fix), nil
	case every > heartbeatAtMost:
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("one every %s: a process that is gone keeps its queues for minutes", every), fix), nil
	}
	return doctor.Sound("every %s", every), nil
}

func (x *examination) clock() (doctor.Diagnosis, error) {
	if x.overviewErr != nil {
		return doctor.Diagnosis{}, x.overviewErr
	}
	if x.skew.Abs() > skewAtMost {
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("the server's is %s ahead of this machine's", x.skew.Round(time.Second)), "synchronize the clocks (chrony, ntpd) of all nodes and of this machine"), nil
	}
	return doctor.Sound("the server's agrees with this machine's"), nil
}

func (x *examination) plugins() (doctor.Diagnosis, error) {
	switch {
	case x.pluginErr != nil:
		return doctor.Diagnosis{}, x.pluginErr
	case !x.plugin:
		return doctor.Diagnose(doctor.Bad, "no consistent hash: no group can be made", "on every node: rabbitmq-plugins enable rabbitmq_consistent_hash_exchange"), nil
	}
	return doctor.Sound("the consistent hash is there"), nil
}

func (x *examination) allowed() (doctor.Diagnosis, error) {
	if x.rightsErr != nil {
		return doctor.Diagnosis{}, x.rightsErr
	}
	var p doctor.Problems
	for _, topic := range slices.Concat(x.topics, x.missing) {
		for _, right := range x.rights[topic] {
			verdict := doctor.Bad
			if right == "read" || right == "configure" && !slices.Contains(x.missing, topic) {
				verdict = doctor.Warn // a relay to what is there does without
			}
			own := "'^" + topic + `(\..*)?$'`
			p.Add(verdict, topic, "this account may not "+right, fmt.Sprintf("rabbitmqctl set_permissions -p %s %s %s '^(%s(\\..*)?|amq\\.default)$' %s, beside what it may now", shellWord(x.at.vhost), shellWord(x.at.user), own, topic, own))
		}
	}
	return p.Diagnosis("this account may do what it has to"), nil
}
