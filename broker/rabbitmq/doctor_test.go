package rabbitmq_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rabbitmq"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/doctor/doctortest"
)

// managed is the URL of the server with its management API, one port above.
func managed(t testing.TB, at string) string {
	t.Helper()
	at, _, _ = strings.Cut(at, "?")
	return at + "?management=" + manage(t, at).base
}

func diagnose(t *testing.T, at string, cfg rabbitmq.DoctorConfig) map[string]doctor.Finding {
	t.Helper()
	cfg.Timeout = patience
	return doctortest.Diagnose(t, rabbitmq.NewDoctor(at, cfg))
}

func TestADoctorSaysWhatOneNodeOfRabbitMQIsWorth(t *testing.T) {
	t.Parallel()
	r := newRig(t, serverForTest(t))
	r.introduce(t, "g")
	at := managed(t, r.at)
	cfg := rabbitmq.DoctorConfig{Topics: []string{r.topic, r.topic + "-missing"}, Groups: []string{"g"}}
	by := diagnose(t, at, cfg)
	for check, want := range map[string]struct {
		verdict doctor.Verdict
		found   string
	}{
		"broker_version":     {doctor.Warn, "it gets no fixes any more"},
		"management":         {doctor.OK, "answers"},
		"encryption":         {doctor.OK, "on this machine"},
		"account":            {doctor.OK, "settle"},
		"heartbeat":          {doctor.OK, "every 5s"},
		"clock":              {doctor.OK, "agrees"},
		"plugins":            {doctor.OK, "consistent hash"},
		"rights":             {doctor.OK, "may do"},
		"nodes":              {doctor.Warn, "1: while it is away"},
		"network_partitions": {doctor.OK, "one node"},
		"alarms":             {doctor.OK, "none"},
		"disk_limit":         {doctor.Warn, "50000000 bytes"},
		"memory_limit":       {doctor.OK, "room"},
		"feature_flags":      {doctor.OK, "all are enabled"},
		"topics":             {doctor.Warn, "not there: " + r.topic + "-missing"},
		"exchanges":          {doctor.OK, "durable"},
		"groups":             {doctor.OK, "bound"},
		"queue_type":         {doctor.OK, "quorum"},
		"queue_members":      {doctor.Bad, "one member"},
		"members_online":     {doctor.OK, "all are"},
		"queue_policies":     {doctor.OK, "none"},
		"consumer_timeout":   {doctor.OK, "30 minutes"},
		"dead_queues":        {doctor.OK, "empty"},
	} {
		doctortest.Says(t, by, check, want.verdict, want.found, "")
	}
	if len(by) != 23 {
		t.Errorf("there are %d checks, and 23 were expected", len(by))
	}
	if there, err := r.conn.Channel(); err == nil {
		if err := there.ExchangeDeclarePassive(r.topic+"-missing", "fanout", true, false, false, false, nil); err == nil {
			t.Error("a doctor that only looks has made a topic")
		}
	}
	all := diagnose(t, at, rabbitmq.DoctorConfig{})
	if f := all["topics"]; f.Verdict != doctor.OK || strings.Contains(f.Found, "amq.") {
		t.Errorf("without names it looks at %+v", f)
	}
	few, err := rabbitmq.NewDoctor(at, cfg).Durability(t.Context())
	if err != nil || len(few) != 4 || doctor.Worst(few) != doctor.Bad {
		t.Errorf("of durability it says %+v, %v", few, err)
	}
	c := newCollector()
	b := closing(t, r.open(t, r.config()))
	c.subscribe(t, b, "g", r.topic)
	batch := events(r.topic, "k", 26)
	publishAll(t, b, batch)
	c.await(t, "all events", func() bool { return c.has(batch) })
	if len(c.records) != len(batch) {
		t.Errorf("a group was brought %d records of %d events: a doctor has published", len(c.records), len(batch))
	}
}

func TestADoctorWithoutTheManagementAPISaysWhatItDoesNotSee(t *testing.T) {
	t.Parallel()
	r := newRig(t, serverForTest(t))
	r.introduce(t, "g")
	by := diagnose(t, r.at, rabbitmq.DoctorConfig{Topics: []string{r.topic, r.topic + "-missing"}, Groups: []string{"g"}})
	for _, check := range []string{"management", "clock", "nodes", "network_partitions", "alarms", "disk_limit", "memory_limit", "feature_flags", "exchanges", "groups", "queue_type", "queue_members",
		"members_online", "queue_policies", "consumer_timeout"} {
		doctortest.Says(t, by, check, doctor.Warn, "names no management API", "management=http://host:15672")
	}
	for _, check := range []string{"plugins", "rights", "heartbeat", "encryption", "dead_queues"} {
		doctortest.Says(t, by, check, doctor.OK, "", "")
	}
	doctortest.Says(t, by, "topics", doctor.Warn, "not there: "+r.topic+"-missing", "")
	doctortest.Says(t, diagnose(t, r.at, rabbitmq.DoctorConfig{}), "topics", doctor.Warn, "can't be looked at", "management=")
}

func TestADoctorFindsEachSettingThatIsPlantedIntoATopicOfRabbitMQ(t *testing.T) {
	t.Parallel()
	r := newRig(t, serverForTest(t))
	r.introduce(t, "g")
	m, at := manage(t, r.at), managed(t, r.at)
	cfg := rabbitmq.DoctorConfig{Topics: []string{r.topic}, Groups: []string{"g"}}
	look := func() map[string]doctor.Finding { return diagnose(t, at, cfg) }
	for setting, c := range map[string]struct {
		value   any
		verdict doctor.Verdict
		found   string
	}{
		"message-ttl":             {1000000, doctor.Bad, "drops what has waited 1e+06 ms"},
		"expires":                 {1000000, doctor.Bad, "deletes a queue"},
		"overflow":                {"drop-head", doctor.Bad, "drops events that were acknowledged"},
		"max-length":              {100000, doctor.Warn, "takes nothing for any group"},
		"delivery-limit":          {20, doctor.Bad, "delivery-limit 20"},
		"dead-letter-exchange":    {"amq.fanout", doctor.Bad, "goes elsewhere"},
		"dead-letter-routing-key": {"else", doctor.Bad, "goes elsewhere"},
		"dead-letter-strategy":    {"at-most-once", doctor.Bad, "lost on its way"},
	} {
		for _, kind := range []string{"policies", "operator-policies"} {
			if kind == "operator-policies" && setting != "message-ttl" && setting != "delivery-limit" {
				continue // operators may set little
			}
			path := "/api/" + kind + "/%2F/" + r.topic
			m.ask(http.MethodPut, path, map[string]any{"pattern": "^" + r.topic + `\.g\.[0-9]+$`, "apply-to": "queues", "definition": map[string]any{setting: c.value}})
			by := look()
			m.ask(http.MethodDelete, path, nil)
			doctortest.Says(t, by, "queue_policies", c.verdict, c.found, strings.TrimSuffix(strings.ReplaceAll("clear_"+kind, "-", "_"), "ies")+"y")
		}
	}
	doctortest.Says(t, look(), "queue_policies", doctor.OK, "", "")
	path := "/api/policies/%2F/" + r.topic
	m.ask(http.MethodPut, path, map[string]any{"pattern": "^" + r.topic + "$", "apply-to": "exchanges", "definition": map[string]any{"alternate-exchange": "amq.fanout"}})
	doctortest.Says(t, look(), "exchanges", doctor.Bad, `what no queue takes goes to "amq.fanout"`, "clear_policy")
	m.ask(http.MethodDelete, path, nil)

	err := r.ch.PublishWithContext(t.Context(), "", r.topic+".g.dead", true, false, amqp.Publishing{DeliveryMode: amqp.Persistent})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the event among the dead ones", func() bool { return look()["dead_queues"].Verdict == doctor.Warn })
	doctortest.Says(t, look(), "dead_queues", doctor.Warn, "holds 1 events: "+r.topic+".g.dead", "purge")

	unbind := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	unbind(r.ch.ExchangeUnbind(r.topic+".g", "#", r.topic, false, nil))
	doctortest.Says(t, look(), "groups", doctor.Bad, "not bound to its topic: it gets nothing", "restart a member")
	r.introduce(t, "g")
	unbind(r.ch.QueueUnbind(r.topic+".g.1", "1", r.topic+".g", nil))
	doctortest.Says(t, look(), "groups", doctor.Bad, "not bound: keys go to the other queues: "+r.topic+".g.1", "restart a member")
	unbind(deleted(r, r.topic+".g.dead"))
	doctortest.Says(t, look(), "groups", doctor.Bad, "queue of dead ones is missing", "restart a member")
	unbind(deleted(r, r.topic+".g.1"))
	doctortest.Says(t, look(), "groups", doctor.Bad, "nobody may read this one: "+r.topic+".g.2, "+r.topic+".g.3", "restart a member")
	r.introduce(t, "g")
	doctortest.Says(t, look(), "groups", doctor.OK, "", "")
	cfg.Groups = []string{"g", "else"}
	doctortest.Says(t, look(), "groups", doctor.Bad, "missing: "+r.topic+".else", "in groups of its source")
	cfg.Groups = []string{"g"}

	unbind(deleted(r, r.topic+".g.3"))
	if _, err := r.ch.QueueDeclare(r.topic+".g.3", true, false, false, false, amqp.Table{"x-queue-type": "classic"}); err != nil {
		t.Fatal(err)
	}
	doctortest.Says(t, look(), "queue_type", doctor.Bad, "classic: "+r.topic+".g.3", "x-queue-type quorum")
	r.remove()
	unbind(r.ch.ExchangeDeclare(r.topic, "direct", false, false, false, false, amqp.Table{"alternate-exchange": "amq.fanout"}))
	for _, found := range []string{"not durable", "of type direct", `goes to "amq.fanout"`} {
		doctortest.Says(t, look(), "exchanges", doctor.Bad, found, "rabbitmqadmin delete")
	}
}

func deleted(r *rig, queue string) error {
	_, err := r.ch.QueueDelete(queue, false, false, false)
	return err
}

// await asks until it is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestADoctorNamesTheRightsThatAnAccountOfRabbitMQLacks(t *testing.T) {
	t.Parallel()
	r := newRig(t, serverForTest(t))
	r.introduce(t, "g")
	m := manage(t, r.at)
	own := "^" + r.topic
	for lacks, c := range map[string]struct {
		configure, write, read string
		verdict                doctor.Verdict
	}{
		"write":     {own, "^$", own, doctor.Bad},
		"configure": {"^$", own, own, doctor.Warn},
		"read":      {own, own, "^$", doctor.Warn},
	} {
		at := m.newUser(r.at, c.configure, c.write, c.read)
		by := diagnose(t, at+"?management="+m.base, rabbitmq.DoctorConfig{Topics: []string{r.topic}, Groups: []string{"g"}})
		doctortest.Says(t, by, "rights", c.verdict, "this account may not "+lacks+": "+r.topic, "rabbitmqctl set_permissions -p '/' 'test-")
		doctortest.Says(t, by, "nodes", doctor.Warn, "answers 401", "rabbitmqctl set_user_tags 'test-")
		for _, f := range by {
			if strings.Contains(f.Found+f.Fix, "canary") {
				t.Errorf("a password is shown: %+v", f)
			}
		}
	}
}

// planted is a management API that answers some questions otherwise than the
// server does.
func planted(t *testing.T, at string, answers map[string]any) string {
	t.Helper()
	real, err := url.Parse(manage(t, at).base)
	if err != nil {
		t.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(real)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, is := answers[strings.TrimPrefix(r.URL.Path, "/api/")]
		if !is {
			pass.ServeHTTP(w, r)
			return
		}
		if status, is := answer.(int); is {
			w.WriteHeader(status)
			return
		}
		if late, is := answer.(time.Duration); is {
			w.Header().Set("Date", time.Now().Add(late).UTC().Format(http.TimeFormat))
			answer = map[string]string{}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	return at + "?management=" + s.URL
}

func TestADoctorSaysWhatIsWrongWithNodesOfRabbitMQ(t *testing.T) {
	t.Parallel()
	at := serverForTest(t)
	node := func(name string, with map[string]any) map[string]any {
		n := map[string]any{"name": name, "running": true, "mem_limit": int64(8 << 30), "mem_used": 1 << 20, "disk_free_limit": int64(2 << 30), "disk_free": int64(100 << 30)}
		for k, v := range with {
			n[k] = v
		}
		return n
	}
	one := func(with map[string]any) map[string]any {
		return map[string]any{"nodes": []any{node("a", with), node("b", nil), node("c", nil)}}
	}
	for name, c := range map[string]struct {
		answers    map[string]any
		check      string
		verdict    doctor.Verdict
		found, fix string
	}{
		"three sound ones":       {one(nil), "nodes", doctor.OK, "3", ""},
		"room on all":            {one(nil), "disk_limit", doctor.OK, "room", ""},
		"two":                    {map[string]any{"nodes": []any{node("a", nil), node("b", nil)}}, "nodes", doctor.Warn, "no majority", "run three"},
		"one away":               {one(map[string]any{"running": false}), "nodes", doctor.Warn, "1 of 3 do not run: a", "start them"},
		"a network in two":       {one(map[string]any{"partitions": []string{"b", "c"}}), "network_partitions", doctor.Bad, "a does not see b, c", "mend the network"},
		"what can't be seen":     {one(nil), "network_partitions", doctor.Warn, "does not tell", "pause_minority"},
		"memory":                 {one(map[string]any{"mem_alarm": true}), "alarms", doctor.Bad, "memory: a", "memory_breakdown"},
		"disk":                   {one(map[string]any{"disk_free_alarm": true}), "alarms", doctor.Bad, "disk: a", "make room"},
		"the limit of a default": {one(map[string]any{"disk_free_limit": 50_000_000}), "disk_limit", doctor.Warn, "50000000 bytes", "disk_free_limit"},
		"a disk that fills":      {one(map[string]any{"disk_free": int64(3 << 30)}), "disk_limit", doctor.Warn, "are free", "make room"},
		"little memory":          {one(map[string]any{"mem_limit": 1 << 20}), "memory_limit", doctor.Warn, "1048576 bytes", "vm_memory_high_watermark"},
		"memory that fills":      {one(map[string]any{"mem_used": int64(7 << 30)}), "memory_limit", doctor.Warn, "are used", "catch up"},
		"no figures":             {one(map[string]any{"mem_limit": nil}), "alarms", doctor.Warn, "tells no figures", "look again"},
		"a flag":                 {map[string]any{"feature-flags": []any{map[string]string{"name": "stream_queue", "state": "disabled", "stability": "stable"}}}, "feature_flags", doctor.Warn, "not enabled: stream_queue", "enable_feature_flag all"},
		"the flag of queues":     {map[string]any{"feature-flags": []any{map[string]string{"name": "quorum_queue", "state": "disabled", "stability": "stable"}}}, "feature_flags", doctor.Bad, "no quorum queues", "enable_feature_flag all"},
		"an experiment":          {map[string]any{"feature-flags": []any{map[string]string{"name": "new", "state": "disabled", "stability": "experimental"}}}, "feature_flags", doctor.OK, "all", ""},
		"a clock":                {map[string]any{"overview": time.Hour}, "clock", doctor.Warn, "ahead of this machine's", "synchronize"},
		"no API":                 {map[string]any{"overview": http.StatusBadGateway}, "management", doctor.Warn, "answers 502", "look again"},
	} {
		t.Run(name, func(t *testing.T) {
			doctortest.Says(t, diagnose(t, planted(t, at, c.answers), rabbitmq.DoctorConfig{Topics: []string{"none-" + settle.NewID()}}), c.check, c.verdict, c.found, c.fix)
		})
	}
}

// A cluster that pauses its minority can't be asked about it.
func TestADoctorCountsTheMembersOfQueues(t *testing.T) {
	t.Parallel()
	r := newRig(t, serverForTest(t))
	r.introduce(t, "g")
	cfg := rabbitmq.DoctorConfig{Topics: []string{r.topic}, Groups: []string{"g"}}
	for _, c := range []struct {
		members, online []string
		check           string
		verdict         doctor.Verdict
		found           string
	}{
		{[]string{"a", "b", "c"}, []string{"a", "b", "c"}, "members_online", doctor.OK, "all are"},
		{[]string{"a", "b", "c"}, []string{"a", "b"}, "members_online", doctor.Warn, "not on c: " + r.topic + ".g.0"},
		{[]string{"a", "b", "c"}, []string{"a"}, "members_online", doctor.Bad, "no majority"},
		{[]string{"a", "b"}, []string{"a"}, "members_online", doctor.Bad, "no majority"},
		{[]string{"a", "b", "c"}, []string{"a"}, "queue_members", doctor.OK, "three"},
		{[]string{"a", "b"}, []string{"a", "b"}, "queue_members", doctor.Warn, "two members"},
		{[]string{"a"}, []string{"a"}, "queue_members", doctor.Bad, "one member"},
	} {
		queue := map[string]any{"name": r.topic + ".g.0", "type": "quorum", "durable": true, "members": c.members, "online": c.online}
		at := planted(t, r.at, map[string]any{"queues//": map[string]any{"items": []any{queue}, "page_count": 1}})
		doctortest.Says(t, diagnose(t, at, cfg), c.check, c.verdict, c.found, "")
	}
}

func TestADoctorSaysWhyThereIsNoConnectionToRabbitMQ(t *testing.T) {
	t.Parallel()
	at := serverForTest(t)
	wrong := parse(t, at)
	wrong.User = url.UserPassword("settle", "canary")
	elsewhere, vhost := *wrong, parse(t, at)
	elsewhere.Host, vhost.Path = "127.0.0.1:1", "/none"
	for at, want := range map[string]string{
		wrong.String():     `refuses user "settle" with this password`,
		elsewhere.String(): "connection refused",
		vhost.String():     `may not use virtual host "none"`,
	} {
		_, err := rabbitmq.NewDoctor(at, rabbitmq.DoctorConfig{}).Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v; want one sentence with %q", err, want)
		}
	}
}

func TestTheDocumentListsEachCheckOfRabbitMQ(t *testing.T) {
	found, err := rabbitmq.NewDoctor(serverForTest(t), rabbitmq.DoctorConfig{Timeout: patience}).Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	doctortest.Listed(t, "../../docs/doctor.md", "RabbitMQ", found)
}
