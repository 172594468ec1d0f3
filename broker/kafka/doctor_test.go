package kafka_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/settlemq/settle/broker/kafka"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/doctor/doctortest"
)

// doctorConfig gives a busy machine its time.
func doctorConfig(topics ...string) kafka.DoctorConfig {
	return kafka.DoctorConfig{Topics: topics, Timeout: patience}
}

func diagnose(t *testing.T, at string, cfg kafka.DoctorConfig) map[string]doctor.Finding {
	t.Helper()
	return doctortest.Diagnose(t, kafka.NewDoctor(at, cfg))
}

// create makes the rig's topic, and waits until nodes know of it.
func (r *rig) create(t *testing.T, partitions int32) {
	t.Helper()
	if _, err := r.admin.CreateTopic(t.Context(), partitions, 1, nil, r.topic); err != nil {
		t.Fatal(err)
	}
	awaitSeen(t, "leaders of "+r.topic, func() bool {
		led := 0
		meta, _ := r.admin.Metadata(kadm.WithAuthorizedOps(t.Context()), r.topic)
		for _, p := range meta.Topics[r.topic].Partitions {
			if p.Err == nil && p.Leader >= 0 {
				led++
			}
		}
		return led == int(partitions)
	})
}

// mend does what a fix says with kafka-configs.sh.
func (r *rig) mend(t *testing.T, fix string) {
	t.Helper()
	_, set, ok := strings.Cut(fix, "--entity-name "+r.topic+" --add-config ")
	name, value, is := strings.Cut(set, "=")
	if !ok || !is {
		t.Fatalf("the fix is no command for the topic: %s", fix)
	}
	value, _, _ = strings.Cut(value, ";")
	r.alter(t, name, strings.Trim(value, "[]"))
}

// alter sets what a topic's setting is, and waits until nodes know of it.
func (r *rig) alter(t *testing.T, name, value string) {
	t.Helper()
	done, err := r.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, r.topic)
	if err == nil {
		err = done[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
	awaitSeen(t, name+"="+value, func() bool {
		all, err := r.admin.DescribeTopicConfigs(t.Context(), r.topic)
		return err == nil && slices.ContainsFunc(all[0].Configs, func(c kadm.Config) bool { return c.Key == name && c.MaybeValue() == value })
	})
}

func awaitSeen(t *testing.T, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("waited %s in vain for %s", patience, what)
		}
	}
}

func TestADoctorFindsEachSettingThatIsPlantedIntoATopicOfKafkaAndItsCommandMendsIt(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.create(t, 3)
	cfg := doctorConfig(r.topic)
	before := diagnose(t, r.at, cfg)
	for _, c := range []struct {
		check, setting, value string
		verdict               doctor.Verdict
		found                 string
	}{
		{"min_insync_replicas", "min.insync.replicas", "2", doctor.Bad, "2 of 1 copies: nothing can be published"},
		{"unclean_leader_election", "unclean.leader.election.enable", "true", doctor.Bad, "may lead"},
		{"retention", "retention.ms", "3600000", doctor.Bad, "kept for 1h0m0s"},
		{"retention", "retention.bytes", "1000000", doctor.Warn, "keeps 1000000 bytes"},
		{"cleanup_policy", "cleanup.policy", "compact", doctor.Bad, "compact"},
		{"max_message_bytes", "max.message.bytes", "500000", doctor.Bad, "500000 bytes"},
		{"timestamps", "message.timestamp.after.max.ms", "1000", doctor.Warn, "differs by 1s"},
		{"timestamps", "message.timestamp.before.max.ms", "2000", doctor.Warn, "differs by 2s"},
	} {
		if f := before[c.check]; f.Verdict != doctor.OK {
			t.Errorf("before anything is planted: %+v", f)
		}
		r.alter(t, c.setting, c.value)
		f := diagnose(t, r.at, cfg)[c.check]
		if f.Verdict != c.verdict || !strings.Contains(f.Found, c.found) || !strings.Contains(f.Found, r.topic) {
			t.Errorf("%s=%s: %+v; want %s and %q", c.setting, c.value, f, c.verdict, c.found)
			continue
		}
		r.mend(t, f.Fix)
		if f := diagnose(t, r.at, cfg)[c.check]; f.Verdict != doctor.OK {
			t.Errorf("%s=%s, and what mends it: %+v", c.setting, c.value, f)
		}
	}
}

func TestADoctorSaysWhatOneNodeOfKafkaIsWorth(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.create(t, 1)
	by := diagnose(t, r.at, doctorConfig(r.topic, r.topic+"-missing"))
	for check, want := range map[string]struct {
		verdict doctor.Verdict
		found   string
	}{
		"nodes":              {doctor.Warn, "1 is seen"},
		"controller_quorum":  {doctor.Bad, "one controller"},
		"cluster_clock":      {doctor.OK, "agrees"},
		"disks":              {doctor.OK, "room"},
		"new_topics":         {doctor.Bad, "to be made are " + r.topic + "-missing"},
		"auto_create":        {doctor.OK, "off"},
		"offsets_topic":      {doctor.Bad, "one copy"},
		"offsets_retention":  {doctor.OK, "7 d"},
		"log_flush":          {doctor.OK, "when the operating system does"},
		"topics":             {doctor.Warn, "not there: " + r.topic + "-missing"},
		"replication_factor": {doctor.Bad, "one copy, which dies with its node: " + r.topic},
		"partition_count":    {doctor.Warn, "one partition"},
		"topic_rights":       {doctor.OK, "write and read"},
	} {
		if f := by[check]; f.Verdict != want.verdict || !strings.Contains(f.Found, want.found) {
			t.Errorf("%+v; want %s and %q", f, want.verdict, want.found)
		}
	}
	if missing, err := r.admin.ListTopics(t.Context(), r.topic+"-missing"); err != nil || missing.Has(r.topic+"-missing") {
		t.Errorf("a doctor that only looks has made a topic (%v)", err)
	}
	all := diagnose(t, r.at, kafka.DoctorConfig{Timeout: patience, KeepFor: 365 * 24 * time.Hour})
	if f := all["topics"]; f.Verdict != doctor.OK || strings.Contains(f.Found, "__consumer_offsets") {
		t.Errorf("without names it looks at %+v", f)
	}
	if f := all["retention"]; f.Verdict != doctor.Bad || !strings.Contains(f.Found, "must be readable for 365 d") {
		t.Errorf("of a horizon that no topic reaches: %+v", f)
	}
	few, err := kafka.NewDoctor(r.at, doctorConfig(r.topic)).Durability(t.Context())
	if err != nil || len(few) != 4 || doctor.Worst(few) != doctor.Bad {
		t.Errorf("of durability it says %+v, %v", few, err)
	}
}

// limited is a fake of three nodes with an account that may do only what acls
// say.
func limited(t *testing.T, acls ...kfake.ACL) (at string) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(3, "order", "secret"), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.User("SCRAM-SHA-256", "ann", "canary", acls...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return "kafka://ann:canary@" + strings.Join(cluster.ListenAddrs(), ",") + "?sasl=scram-sha-256"
}

func may(operation kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) kfake.ACL {
	return kfake.ACL{Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: operation, Allow: true}
}

func TestADoctorNamesTheRightsThatAnAccountOfKafkaLacks(t *testing.T) {
	topic, cluster := kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeCluster
	at := limited(t, may(kmsg.ACLOperationRead, topic, "order"))
	by := diagnose(t, at, doctorConfig("order", "secret"))
	for check, want := range map[string]struct {
		verdict    doctor.Verdict
		found, fix string
	}{
		"topic_rights":        {doctor.Bad, "may not even see: secret", "--allow-principal 'User:ann' --operation Write --operation Read --operation Describe --operation DescribeConfigs --topic secret"},
		"new_topics":          {doctor.Warn, "can't be looked at", "--operation Describe --operation DescribeConfigs --cluster"},
		"min_insync_replicas": {doctor.Warn, "can't be looked at", "--topic '*'"},
		"replication_factor":  {doctor.OK, "two or more", ""},
	} {
		if f := by[check]; f.Verdict != want.verdict || !strings.Contains(f.Found, want.found) || !strings.Contains(f.Fix, want.fix) {
			t.Errorf("%+v; want %s, %q and %q", f, want.verdict, want.found, want.fix)
		}
	}
	if f := by["topic_rights"]; !strings.Contains(f.Found, "read and not write: a relay can't use it: order") {
		t.Errorf("of who may only read it says %+v", f)
	}
	at = limited(t, may(kmsg.ACLOperationWrite, topic, "order"), may(kmsg.ACLOperationRead, topic, "order"), may(kmsg.ACLOperationDescribeConfigs, topic, "order"),
		may(kmsg.ACLOperationDescribe, cluster, "kafka-cluster"), may(kmsg.ACLOperationDescribeConfigs, cluster, "kafka-cluster"))
	by = diagnose(t, at, kafka.DoctorConfig{Timeout: patience})
	for _, check := range []string{"topic_rights", "replication_factor", "retention", "topics"} {
		if f := by[check]; f.Verdict != doctor.OK {
			t.Errorf("of who may: %+v", f)
		}
	}
	if f := by["topics"]; f.Found != "order" {
		t.Errorf("who may not see a topic is told of it: %+v", f)
	}
}

func TestADoctorSaysWhyThereIsNoConnectionToKafka(t *testing.T) {
	s := securedForTest(t)
	const canary = "canary-password"
	ca := "tls_ca=" + url.QueryEscape(s.ca)
	for name, c := range map[string]struct{ at, want string }{
		"a wrong password":     {s.url("settle", canary, s.at, "tls=true", ca), "as settle: the cluster refuses the user or the password"},
		"a wrong authority":    {s.url("settle", canary, s.at, "tls=true"), "tls_ca=/path names the one to trust"},
		"no user":              {"kafka://" + s.at + "?tls=true&" + ca, "wants a user"},
		"no TLS":               {s.url("settle", canary, s.at), "tls=true is not there"},
		"TLS where is none":    {s.url("settle", canary, s.plain, "tls=true", ca), "TLS"},
		"nobody listens":       {s.url("settle", canary, "127.0.0.1:1"), "nothing listens there"},
		"an unknown host name": {s.url("settle", canary, "no.such.host.invalid:9092"), "the host is not known"},
		"a word that is not":   {"kafka://" + s.at + "?tls=yes", "true or false"},
	} {
		_, err := kafka.NewDoctor(c.at, kafka.DoctorConfig{Timeout: 5 * time.Second}).Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want one sentence with %q", name, err, c.want)
		}
	}
	by := diagnose(t, s.url("settle", s.password, s.at, "tls=true", ca), doctorConfig("none"))
	if f := by["topics"]; !strings.Contains(f.Fix, "--bootstrap-server "+s.at+" --command-config admin.properties --create") {
		t.Errorf("with a user it says %+v", f)
	}
	for _, f := range by {
		if strings.Contains(f.Found+f.Fix, s.password) {
			t.Errorf("a password is shown: %+v", f)
		}
	}
}
