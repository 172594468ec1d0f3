package nats_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/doctor/doctortest"
)

func diagnose(t *testing.T, at string, cfg nats.DoctorConfig) map[string]doctor.Finding {
	t.Helper()
	cfg.Timeout = time.Minute
	return doctortest.Diagnose(t, nats.NewDoctor(at, cfg))
}

// monitored runs a server with a monitor, and returns its URL.
func monitored(t testing.TB, o server.Options) string {
	t.Helper()
	o.HTTPHost, o.HTTPPort = "127.0.0.1", -1
	host, monitor := serveAll(t, o)
	return "nats://" + host + "?monitor=" + url.QueryEscape("http://"+monitor)
}

func TestADoctorFindsNothingBadInAServerAsItShouldBe(t *testing.T) {
	at := monitored(t, server.Options{MaxPayload: 2 << 20, SyncAlways: true})
	b := open(t, at)
	defer b.Close()
	for name, f := range diagnose(t, at, nats.DoctorConfig{}) {
		if f.Verdict != doctor.OK && name != "servers" {
			t.Errorf("%+v", f)
		}
	}
	doctortest.Says(t, diagnose(t, at, nats.DoctorConfig{Topics: []string{"not.there"}}), "topics", doctor.Warn, "not there: not.there", "settle serve")
	doctortest.Says(t, diagnose(t, at, nats.DoctorConfig{}), "servers", doctor.Warn, "one server", "three servers")
	list, err := nats.NewDoctor(at, nats.DoctorConfig{}).Durability(t.Context())
	if err != nil || len(list) != 3 || doctor.Worst(list) != doctor.OK {
		t.Errorf("of durability it finds %+v, %v", list, err)
	}
}

func TestADoctorFindsEachUnsafeSettingOfAServer(t *testing.T) {
	at := monitored(t, server.Options{SyncInterval: 2 * time.Minute, MaxPayload: 512 << 10})
	plain, _, _ := strings.Cut(at, "?")
	doctortest.Says(t, diagnose(t, at, nats.DoctorConfig{}), "sync_interval", doctor.Bad, "syncs each 2m0s", "sync_interval: always")
	doctortest.Says(t, diagnose(t, at, nats.DoctorConfig{}), "max_payload", doctor.Bad, "524288 bytes", "max_payload: 2MB")
	doctortest.Says(t, diagnose(t, at, nats.DoctorConfig{}), "topics", doctor.Warn, "no stream was made for Settle", "--topic")
	doctortest.Says(t, diagnose(t, plain, nats.DoctorConfig{}), "sync_interval", doctor.Warn, "can't be looked at", "monitor=")
	doctortest.Says(t, diagnose(t, plain+"?monitor=http://127.0.0.1:1", nats.DoctorConfig{}), "sync_interval", doctor.Warn, "refused", "option monitor")
	list, err := nats.NewDoctor(at, nats.DoctorConfig{}).Durability(t.Context())
	if err != nil || doctor.Worst(list) != doctor.Bad {
		t.Errorf("of durability it finds %+v, %v", list, err)
	}
}

func TestADoctorFindsEachUnsafeSettingOfAStream(t *testing.T) {
	at := monitored(t, server.Options{MaxPayload: 2 << 20, SyncAlways: true})
	js := (&rig{url: at}).js(t)
	for i, c := range []struct {
		check      string
		verdict    doctor.Verdict
		found, fix string
		plant      func(*jetstream.StreamConfig)
	}{
		{"stream_storage", doctor.Bad, "in memory", "another topic", func(s *jetstream.StreamConfig) { s.Storage, s.AllowAtomicPublish = jetstream.MemoryStorage, true }},
		{"stream_storage", doctor.Bad, "persist_mode async", "another topic", func(s *jetstream.StreamConfig) {
			s.PersistMode, s.AllowAtomicPublish = jetstream.AsyncPersistMode, false
		}},
		{"stream_settings", doctor.Bad, "discards old records", "nats stream edit", func(s *jetstream.StreamConfig) { s.Discard = jetstream.DiscardOld }},
		{"stream_settings", doctor.Bad, "does not allow atomic batches", "nats stream edit", func(s *jetstream.StreamConfig) { s.AllowAtomicPublish = false }},
		{"stream_settings", doctor.Bad, "by limits alone", "another topic", func(s *jetstream.StreamConfig) { s.Retention = jetstream.InterestPolicy }},
		{"stream_keep_for", doctor.Bad, "kept for 1h0m0s", "--max-age 168h0m0s", func(s *jetstream.StreamConfig) { s.MaxAge = time.Hour }},
		{"duplicate_window", doctor.Warn, "5s", "--dupe-window 2m", func(s *jetstream.StreamConfig) { s.Duplicates = 5 * time.Second }},
		{"stream_room", doctor.Warn, "of 1000 bytes are used", "--max-bytes 2000", func(s *jetstream.StreamConfig) { s.MaxBytes = 1000 }},
	} {
		t.Run(fmt.Sprint(c.check, " ", c.found), func(t *testing.T) {
			topic := fmt.Sprint("t", i)
			config := jetstream.StreamConfig{
				Name: nats.StreamName(topic), Subjects: []string{topic + ".0"}, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
				MaxAge: 8 * 24 * time.Hour, Duplicates: 2 * time.Minute, AllowAtomicPublish: true, MaxBytes: 1 << 30, Metadata: map[string]string{"settle-partitions": "1"},
			}
			good := diagnose(t, at, nats.DoctorConfig{Topics: []string{topic}})
			doctortest.Says(t, good, c.check, doctor.OK, "", "")
			c.plant(&config)
			if _, err := js.CreateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = js.DeleteStream(t.Context(), config.Name) }()
			if c.check == "stream_room" {
				if _, err := js.Publish(t.Context(), topic+".0", make([]byte, 850)); err != nil {
					t.Fatal(err)
				}
			}
			doctortest.Says(t, diagnose(t, at, nats.DoctorConfig{Topics: []string{topic}}), c.check, c.verdict, ": "+topic, c.fix)
			doctortest.Says(t, diagnose(t, at, nats.DoctorConfig{}), c.check, c.verdict, c.found, c.fix)
		})
	}
}

func TestADoctorSaysWhyItIsNotLetIn(t *testing.T) {
	at := serveWith(t, server.Options{Authorization: "right", SyncAlways: true})
	for url, want := range map[string]string{
		"nats://canary@" + at:       "refuses the token",
		"nats://canary@127.0.0.1:1": "no servers available",
	} {
		_, err := nats.NewDoctor(url, nats.DoctorConfig{Timeout: 300 * time.Millisecond}).Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v; want one sentence with %q", err, want)
		}
	}
}

func TestTheDocumentListsEachCheckOfNATS(t *testing.T) {
	at := monitored(t, server.Options{SyncAlways: true})
	list, err := nats.NewDoctor(at, nats.DoctorConfig{}).Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	doctortest.Listed(t, "../../docs/doctor.md", "NATS", list)
}
