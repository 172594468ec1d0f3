package server_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/internal/services"
	"github.com/settlemq/settle/server"
)

// rabbitTopic names a topic, and removes it, a group's queues and the ladder of
// a group "theirs" with the test.
func rabbitTopic(t *testing.T, at, group string) string {
	t.Helper()
	topic := "serve-" + settle.NewID()
	t.Cleanup(func() {
		conn, err := amqp.Dial("amqp" + strings.TrimPrefix(at, "rabbitmq"))
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		ch, err := conn.Channel()
		if err != nil {
			return
		}
		for n := range 8 {
			_, _ = ch.QueueDelete(fmt.Sprintf("%s.%s.%d", topic, group, n), false, false, false)
		}
		for _, rest := range []string{".dead", ".members"} {
			_, _ = ch.QueueDelete(topic+"."+group+rest, false, false, false)
		}
		removeLadder(ch, topic+".theirs", 3)
		_ = ch.ExchangeDelete(topic+"."+group, false, false)
		_ = ch.ExchangeDelete(topic, false, false)
	})
	return topic
}

func TestAGroupThatIsNamedGetsWhatWasPublishedBeforeItCame(t *testing.T) {
	const rows = 40
	broker := services.URL(t, "SETTLE_TEST_RABBITMQ", "rabbitmq")
	for what, named := range map[string]bool{"with its topic": true, "with a topic that is made on first use": false} {
		t.Run(what, func(t *testing.T) {
			topic := rabbitTopic(t, broker, "points")
			at, db := database(t)
			tx, err := db.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i := range rows {
				if _, err := tx.ExecContext(t.Context(), `INSERT INTO t_outbox_event (event_id, event_type, topic, aggregate_id, payload) VALUES (?, 'Counted', ?, ?, '{}')`, fmt.Sprint("e-", i), topic, fmt.Sprint("k", i%5)); err != nil {
					t.Fatal(err)
				}
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			source := server.SourceConfig{DB: at, Broker: broker, Groups: []string{"points"}, BrokerDurability: server.DurabilityLax, Relay: server.RelayConfig{LeaseTTL: time.Second}}
			if named {
				source.Topics = []string{topic}
			}
			s, log, stop := start(t, server.Config{Sources: map[string]server.SourceConfig{"order": source}})
			await(t, s, log, "done", func(h server.Health) bool { return h.Sources["order"].Published == rows })
			stop()
			b, err := dial.Broker(t.Context(), broker, dial.BrokerConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = b.Close() }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got, ended := make(reader), make(chan error, 1)
			go func() {
				ended <- b.Subscribe(ctx, settle.Subscription{Group: "points", Topics: []string{topic}}, got)
			}()
			seen := map[string]bool{}
			for len(seen) < rows {
				select {
				case rec := <-got:
					seen[rec.Event.ID] = true
				case <-ctx.Done():
					t.Fatalf("of %d events that were published before the group came it gets %d", rows, len(seen))
				}
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// managed adds to a URL where the management API of the tests' server is.
func managed(t *testing.T, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("the URL of the server can't be read")
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = url.Values{"management": {"http://" + net.JoinHostPort(u.Hostname(), strconv.Itoa(port+1))}}.Encode()
	return u.String()
}

func TestAnUnsafeRabbitMQIsRefusedOrWarnedOf(t *testing.T) {
	plain := services.URL(t, "SETTLE_TEST_RABBITMQ", "rabbitmq")
	topic, broker := rabbitTopic(t, plain, "points"), managed(t, plain)
	b, err := dial.Broker(t.Context(), plain, dial.BrokerConfig{Topics: []string{topic}, Groups: []string{"points"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	policy(t, broker, http.MethodPut, topic, `{"pattern": "^`+topic+`", "apply-to": "queues", "definition": {"message-ttl": 10000000}}`)
	t.Cleanup(func() { policy(t, broker, http.MethodDelete, topic, "") })
	at, _ := database(t)
	source := server.SourceConfig{DB: at, Broker: broker, Topics: []string{topic}, Groups: []string{"points"}, Relay: server.RelayConfig{LeaseTTL: time.Second}}
	s, log, stop := start(t, server.Config{Sources: map[string]server.SourceConfig{"order": source}})
	h := await(t, s, log, "refused", func(h server.Health) bool { return h.Sources["order"].State == server.StateRefused })
	for _, want := range []string{"the broker may lose what it has acknowledged, so nothing is relayed to it until that is mended, or the source says broker_durability: lax", "queue_members: one member", "drops what has waited", "clear_policy"} {
		if cause := h.Sources["order"].Cause; !strings.Contains(cause, want) {
			t.Errorf("the cause does not say %q: %s", want, cause)
		}
	}
	stop()
	source.BrokerDurability = server.DurabilityLax
	warned(t, source, "drops what has waited")
	source.BrokerDurability, source.Broker = server.DurabilityStrict, plain
	warned(t, source, "queue_members: can't be looked at: AMQP does not tell it, and the URL names no management API")
}

// warned fails unless a source is relayed with a warning.
func warned(t *testing.T, source server.SourceConfig, want string) {
	t.Helper()
	s, log, stop := start(t, server.Config{Sources: map[string]server.SourceConfig{"order": source}})
	h := await(t, s, log, "leading", func(h server.Health) bool { return h.Sources["order"].State == server.StateLeading })
	if w := h.Sources["order"].Warnings; !slices.ContainsFunc(w, func(text string) bool { return strings.Contains(text, want) }) {
		t.Errorf("the warnings are %q, want %q", w, want)
	}
	stop()
}

// policy makes or clears a policy of its topic's name.
func policy(t *testing.T, at, method, topic, body string) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("the URL of the server can't be read")
	}
	req, err := http.NewRequest(method, u.Query().Get("management")+"/api/policies/%2F/"+topic, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	req.SetBasicAuth(u.User.Username(), password)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode >= 300 {
		t.Fatalf("%s a policy: %s", method, answer.Status)
	}
}
