package cli_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/server"
)

// alterTopic sets what a topic of a fake of Kafka does.
func alterTopic(t *testing.T, at, topic, setting, value string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(strings.TrimPrefix(at, "kafka://"), ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	done, err := kadm.NewClient(cl).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: setting, Value: &value}}, topic)
	if err != nil || done[0].Err != nil {
		t.Fatal(err, done)
	}
}

func TestABrokerThatMayLoseWhatItHasAcknowledgedIsNotRelayedToUntilItIsMended(t *testing.T) {
	at := fakeKafka(t, "order")
	strict, path := migrated(t)
	lax, _ := migrated(t)
	both, _ := migrated(t)
	config := writeConfig(t, t.TempDir(), "sources:\n  strict: {db: '"+strict+"', broker: '"+at+"', topics: [order]}\n"+
		"  lax: {db: '"+lax+"', broker: '"+at+"', topics: [order], broker_durability: lax}\n"+
		"  both: {db: '"+both+"', broker: '"+at+"', topics: [order], durability: lax}\n")
	code, out, _ := run(t, "serve", "-c", config, "--check")
	if code != cli.ExitUnreachable || !strings.Contains(out, "FAIL strict broker: the broker may lose what it has acknowledged") || !strings.Contains(out, "ok   lax broker: answers; warning: ") || !strings.Contains(out, "ok   both broker: answers; warning: ") {
		t.Errorf("--check exits %d and says\n%s", code, out)
	}
	s := serve(t, config)
	h := s.await(t, "judged", func(h server.Health) bool {
		return sourceIs("strict", server.StateRefused)(h) && sourceIs("lax", server.StateLeading)(h) && sourceIs("both", server.StateLeading)(h)
	})
	for _, word := range []string{"min_insync_replicas: 1 of 3 copies", "--entity-name order --add-config min.insync.replicas=2", "broker_durability: lax"} {
		if got := h.Sources["strict"]; got.What != "durability" || !strings.Contains(got.Cause, word) {
			t.Errorf("the strict one says %+v; want %q", got, word)
		}
	}
	if got := strings.Join(h.Sources["lax"].Warnings, "\n"); !strings.Contains(got, "min_insync_replicas: 1 of 3 copies") {
		t.Errorf("the lax one warns of %q", got)
	}
	if _, code := s.read(); code != http.StatusServiceUnavailable {
		t.Errorf("readyz answers %d", code)
	}
	execFile(t, path, `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload, topic) VALUES ('e1', 'x', 'k', '{}', 'order')`)
	alterTopic(t, at, "order", "min.insync.replicas", "2")
	s.await(t, "mended", func(h server.Health) bool {
		return sourceIs("strict", server.StateLeading)(h) && h.Sources["strict"].Published == 1
	})
	s.term(t)
	for text, times := range map[string]int{"source=strict state=refused": 1, "source=lax cause=\"min_insync_replicas": 1} {
		if n := strings.Count(s.log.String(), text); n != times {
			t.Errorf("%q is told %d times:\n%s", text, n, s.log)
		}
	}
}

func TestAClusterInWhichTheTopicWouldBeMadeUnsafeIsRefusedToo(t *testing.T) {
	dir := t.TempDir()
	db, _ := migrated(t)
	at := fakeKafka(t, "other")
	for topics, refused := range map[string]bool{"": true, ", topics: [order]": true, ", topics: [other]": true, ", topics: [other], broker_durability: lax": false} {
		config := writeConfig(t, dir, "sources:\n  a: {db: '"+db+"', broker: '"+at+"'"+topics+"}\n")
		_, out, _ := run(t, "serve", "-c", config, "--check")
		if strings.Contains(out, "FAIL a broker: ") != refused {
			t.Errorf("with %q it says\n%s", topics, out)
		}
	}
	alterTopic(t, at, "other", "min.insync.replicas", "2")
	config := writeConfig(t, filepath.Clean(dir), "sources:\n  a: {db: '"+db+"', broker: '"+at+"', topics: [other]}\n")
	if out := must(t, cli.ExitOK, "serve", "-c", config, "--check"); !strings.Contains(out, "ok   a broker: answers; warning: new_topics: ") {
		t.Errorf("of a topic that is there and sound it says\n%s", out)
	}
}
