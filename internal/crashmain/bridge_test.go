package main

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/internal/services"
)

// bridgePoints are those of a bridge, in the order in which a letter passes them.
var bridgePoints = []string{"bridge.before_commit", "bridge.after_commit", "bridge.before_ack", "bridge.after_return", "bridge.after_mark"}

const patience = 2 * time.Minute

func TestADeadLetterIsKeptOnceAndGoesBackUnderOneIDWhenProcessesDieAtEveryCrashPoint(t *testing.T) {
	at := services.URL(t, "SETTLE_TEST_RABBITMQ", "rabbitmq")
	queue, marks := "crash-"+settle.NewID(), t.TempDir()
	ch := queueFor(t, at, queue)
	path := filepath.Join(t.TempDir(), "order.db")
	file := filepath.Join(t.TempDir(), "settle.yml")
	text := fmt.Sprintf(`sources:
  order:
    db: %s
    migrate: true
    broker: %s
    broker_durability: lax
    bridges:
      stock: {dead: [%s.dead], retry: %[3]s, lease_ttl: 500ms, look_every: 20ms}
`, (&url.URL{Scheme: "sqlite", Path: path}).String(), at, queue)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	deaths := serveAgain(t, file, marks)
	e := &settle.Event{ID: "e-1", Type: "order.created", AggregateID: "o-1", Payload: []byte("{}")}
	err := ch.PublishWithContext(t.Context(), "", queue, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: settle.AppendEnvelope(nil, e), Headers: amqp.Table{settle.HeaderEventID: "e-1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := awaited(t, ch, queue).Reject(false); err != nil {
		t.Fatal(err)
	}
	db := opened(t, path)
	first := kept(t, ch, db, queue, 1)
	out, err := db.Governance.Replay(t.Context(), govern.Act{By: "ann"}, govern.ReplayOptions{}, first)
	if err != nil || out[0].Result != "done" {
		t.Fatalf("Replay: %+v, %v", out, err)
	}
	// Who died when the broker had it sends it once more.
	var ids []any
	for range 2 {
		d := awaited(t, ch, queue)
		ids = append(ids, d.Headers[bridge.HeaderReturn])
		if err := d.Ack(false); err != nil {
			t.Fatal(err)
		}
	}
	if ids[0] != ids[1] || ids[0] == nil {
		t.Errorf("it comes back as %v", ids)
	}
	until(t, "the replay is recorded", func() bool {
		d, err := db.Governance.DeadLetter(t.Context(), first)
		return err == nil && d.State == govern.StateReplayed
	})
	kept(t, ch, db, queue, 1)
	until(t, "somebody has died at every point", func() bool { return deaths() == len(bridgePoints) })
	if _, is, err := ch.Get(queue, true); err != nil || is {
		t.Errorf("it comes back once more: %v, %v", is, err)
	}
}

// queueFor makes a queue with a dead-letter queue behind it.
func queueFor(t *testing.T, at, queue string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial("amqp" + strings.TrimPrefix(at, "rabbitmq"))
	if err != nil {
		t.Fatal(err)
	}
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, q := range []string{queue, queue + ".dead"} {
			_, _ = ch.QueueDelete(q, false, false, false)
		}
		_ = conn.Close()
	})
	for q, args := range map[string]amqp.Table{queue + ".dead": nil, queue: {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue + ".dead"}} {
		if _, err := ch.QueueDeclare(q, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
	return ch
}

// serveAgain runs settle serve, and again whenever it has died, until the test
// ends. deaths tells at how many points somebody has died.
func serveAgain(t *testing.T, file, marks string) (deaths func() int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var plan []string
	for _, p := range bridgePoints {
		plan = append(plan, fmt.Sprintf("%s:1:%s", p, filepath.Join(marks, p)))
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for t.Context().Err() == nil {
			cmd := exec.CommandContext(t.Context(), self, "serve", "-c", file)
			cmd.Env = append(os.Environ(), "SETTLE_TEST_MAIN=1", "SETTLE_CRASH="+strings.Join(plan, ","))
			var said bytes.Buffer
			cmd.Stderr = &said
			if err := cmd.Run(); err == nil {
				t.Errorf("serve has ended by itself:\n%s", said.String())
				return
			} else if !strings.Contains(err.Error(), "killed") {
				t.Errorf("serve: %v\n%s", err, said.String())
				return
			}
		}
	}()
	t.Cleanup(func() { <-ended })
	return func() int {
		n := 0
		for _, p := range bridgePoints {
			if _, err := os.Stat(filepath.Join(marks, p)); err == nil {
				n++
			}
		}
		return n
	}
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did not come about that %s", what)
		}
	}
}

func awaited(t *testing.T, ch *amqp.Channel, queue string) (d amqp.Delivery) {
	t.Helper()
	until(t, "a message comes", func() bool {
		found, is, err := ch.Get(queue, false)
		if err != nil {
			t.Fatal(err)
		}
		d = found
		return is
	})
	return d
}

func opened(t *testing.T, path string) (db *dial.Database) {
	t.Helper()
	until(t, "the tables are made", func() bool {
		var err error
		db, err = dial.Store(t.Context(), (&url.URL{Scheme: "sqlite", Path: path}).String(), dial.StoreConfig{Existing: true})
		return err == nil
	})
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// kept waits until the letter is kept and acknowledged, and wants n in all; it
// returns the id of the first.
func kept(t *testing.T, ch *amqp.Channel, db *dial.Database, queue string, n int) int64 {
	t.Helper()
	var found []govern.DeadLetter
	until(t, "the letter is kept and acknowledged", func() bool {
		q, err := ch.QueueDeclarePassive(queue+".dead", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if found, err = db.Governance.DeadLetters(t.Context(), govern.Filter{State: "any"}); err != nil {
			t.Fatal(err)
		}
		return q.Messages == 0 && len(found) > 0
	})
	if len(found) != n {
		t.Fatalf("%d letters are kept, want %d: %+v", len(found), n, found)
	}
	return found[0].ID
}
