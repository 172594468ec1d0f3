package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

// published is a broker that only tells what it got.
type published chan string

func (p published) Publish(_ context.Context, batch []settle.Message) []settle.Receipt {
	receipts := make([]settle.Receipt, len(batch))
	for i, m := range batch {
		receipts[i].At = settle.Coordinates{Topic: m.Event.Topic, Offset: 1}
		p <- m.ID
	}
	return receipts
}

func (p published) want(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		select {
		case got := <-p:
			if got != id {
				t.Fatalf("the broker got %s, want %s", got, id)
			}
		case <-t.Context().Done():
			t.Fatalf("the broker never got %s", id)
		}
	}
}

// relaying opens the database at url with one sent event, and relays from it
// until the test ends.
func relaying(t *testing.T, url string) published {
	t.Helper()
	db, err := dial.Store(t.Context(), url, dial.StoreConfig{Service: "order"})
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, db, "e-1")
	broker := make(published, 10)
	sent := make(chan int, 10)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- relay.New(db.Log, broker, relay.Config{OnSent: func(s []relay.Sent) { sent <- len(s) }}).Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	broker.want(t, "e-1")
	<-sent
	return broker
}

func appendTo(t *testing.T, db *dial.Database, ids ...string) {
	t.Helper()
	for _, id := range ids {
		tx, err := db.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Outbox.Append(t.Context(), tx, &settle.Event{ID: id, Type: "order.created", AggregateID: "o-" + id, Payload: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestASentEventIsSentAgainByCommandAndItsTrailSaysWhoAsked(t *testing.T) {
	for kind, at := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite://" + filepath.Join(t.TempDir(), "order.db") },
		"PostgreSQL": postgresSchema,
		"MySQL":      emptyMySQL,
	} {
		t.Run(kind, func(t *testing.T) {
			url := at(t)
			broker := relaying(t, url)
			db := []string{"--db", "order=" + url}
			with := func(args ...string) []string { return append(args, db...) }
			must(t, cli.ExitUsage, with("outbox", "resend", "order", "e-1")...)
			out := must(t, cli.ExitOK, with("outbox", "resend", "order", "e-1", "--by", "ana", "--reason", "billing lost it")...)
			if out != "e-1 is sent again as e-1#1\n" {
				t.Errorf("resend prints\n%s", out)
			}
			broker.want(t, "e-1#1")
			out = must(t, cli.ExitOK, with("trail", "e-1")...)
			if !strings.Contains(out, "resend      order                  by ana, billing lost it") {
				t.Errorf("the trail is\n%s", out)
			}
			var told []govern.Resent
			out = must(t, cli.ExitFinding, with("outbox", "resend", "order", "e-2", "--reason", "x", "--json")...)
			if err := json.Unmarshal([]byte(out), &told); err != nil || len(told) != 1 || told[0].Result != "refused" || !strings.Contains(told[0].Why, "no such event") {
				t.Errorf("resend of what is not there prints\n%s%v", out, err)
			}
			if out = must(t, cli.ExitUsage, with("outbox", "resend", "stock", "e-1", "--reason", "x")...); !strings.Contains(out, `no service "stock"`) {
				t.Errorf("resend of a service that is not there prints\n%s", fmt.Sprint(out))
			}
		})
	}
}
