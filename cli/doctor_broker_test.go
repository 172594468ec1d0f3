package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/doctor/doctortest"
)

// fakeKafka is a cluster of three inside of this process, with one topic.
func fakeKafka(t *testing.T, topic string, options ...kfake.Opt) (at string) {
	t.Helper()
	cluster, err := kfake.NewCluster(append(options, kfake.NumBrokers(3), kfake.SeedTopics(3, topic))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return "kafka://" + strings.Join(cluster.ListenAddrs(), ",")
}

func TestDoctorExaminesABrokerAloneAndBesideADatabase(t *testing.T) {
	at := fakeKafka(t, "order")
	for _, want := range []string{"ok    replication_factor: two or more copies", "bad   min_insync_replicas: 1 of 3 copies", "why: it is how many", "fix: kafka-configs.sh --bootstrap-server", "ok    topics: order\n"} {
		if out := must(t, cli.ExitFinding, "doctor", "--broker", at); !strings.Contains(out, want) {
			t.Errorf("it does not say %q\n%s", want, out)
		}
	}
	must(t, cli.ExitOK, "doctor", "--broker", at, "--lax")
	db, _ := migrated(t)
	if out := must(t, cli.ExitOK, "doctor", "--lax", "--db", db, "--broker", at, "--topic", "other", "--keep-for", "800h"); !strings.Contains(out, "ok    integrity: ok") ||
		!strings.Contains(out, "topics: not there: other") || !strings.Contains(out, "consumers are to come back for 800h0m0s") {
		t.Errorf("of both it says\n%s", out)
	}
	code, out, _ := run(t, "doctor", "--json", "--broker", at)
	var list []doctor.Finding
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != cli.ExitFinding || doctor.Worst(list) != doctor.Bad {
		t.Errorf("exit %d, %v\n%s", code, err, out)
	}
}

func TestDoctorExaminesTheBrokersOfAFileForTheirTopicsAndForHowLongTheyAreKept(t *testing.T) {
	db, _ := migrated(t)
	at := fakeKafka(t, "order", kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "ann", "c4n4ry"))
	at = strings.Replace(at, "kafka://", "kafka://ann:c4n4ry@", 1)
	config := filepath.Join(t.TempDir(), "settle.yml")
	text := "sources:\n  a: {db: '" + db + "', broker: '" + at + "', topics: [order, refund], relay: {keep_for: 900h}}\n" +
		"  b: {db: sqlite:///no/such/b.db, broker: 'kafka://ann:c4n4ry@127.0.0.1:1'}\n  c: {db: sqlite:///no/such/c.db, broker: 'nats://s3cret@127.0.0.1:1'}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run(t, "doctor", "-c", config)
	for _, want := range []string{"ok    a integrity: ok", "warn  a topics: not there: refund", "bad   a min_insync_replicas: 1 of 3 copies", "must be readable for 900h0m0s: order", "b: connect to Kafka at 127.0.0.1:1 as ann: nothing listens there", "c: open database"} {
		if code != cli.ExitUnreachable || !strings.Contains(out+errs, want) {
			t.Errorf("exit %d; it does not say %q\n%s%s", code, want, out, errs)
		}
	}
	if strings.Contains(out+errs, "c4n4ry") || strings.Contains(out+errs, "s3cret") || !strings.Contains(errs, "c: connect to broker") {
		t.Errorf("it shows a password, or does not examine JetStream\n%s%s", out, errs)
	}
}

func TestDoctorTellsWrongUsageOfABroker(t *testing.T) {
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{cli.ExitUsage, `unknown scheme "kafke"`, []string{"--broker", "kafke://u:canary@h:1"}},
		{cli.ExitUsage, "no option", []string{"--broker", "kafka://u:canary@h:1?ssl=true"}},
		{cli.ExitUsage, "no checks of this kind of broker", []string{"--broker", "memory:"}},
		{cli.ExitUsage, "take --broker or -c away", []string{"--broker", "kafka://u:canary@h:1", "-c", "settle.yml"}},
		{cli.ExitUsage, "--topic and --keep-for are about a broker", []string{"--db", "sqlite:///x.db", "--topic", "t"}},
		{cli.ExitUsage, "--keep-for is a time", []string{"--broker", "kafka://u:canary@h:1", "--keep-for", "-1h"}},
		{cli.ExitUsage, "not set", []string{"--broker", "kafka://u:${NO_SUCH_VARIABLE}@h:1"}},
		{cli.ExitUnreachable, "nothing listens there", []string{"--broker", "kafka://u:canary@127.0.0.1:1,127.0.0.1:2"}},
	} {
		code, out, errs := run(t, append([]string{"doctor"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.says) || strings.Contains(out+errs, "canary") {
			t.Errorf("doctor %v: exit %d\n%s%s", c.args, code, out, errs)
		}
	}
}

func TestTheDocumentListsEachCheckOfABrokersDoctor(t *testing.T) {
	_, out, _ := run(t, "doctor", "--json", "--broker", fakeKafka(t, "order"))
	var list []doctor.Finding
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	doctortest.Listed(t, "../docs/doctor.md", "Kafka", list)
}
