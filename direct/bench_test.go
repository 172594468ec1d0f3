package direct_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/nats/embedded"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/direct"
)

// What an order costs whoever waits for it: alone, with its event in the outbox,
// and with its event sent directly. SQLite and the embedded JetStream.
func BenchmarkAnOrder(b *testing.B) {
	bus, err := embedded.Start(embedded.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = bus.Close() })
	pub, err := dial.Broker(b.Context(), bus.URL(), dial.BrokerConfig{Topics: []string{settle.DefaultTopic}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = pub.Close() })
	for _, way := range []struct {
		name   string
		outbox bool
		direct bool
	}{{"alone", false, false}, {"outbox", true, false}, {"direct", false, true}} {
		b.Run(way.name, func(b *testing.B) {
			db, err := dial.Store(b.Context(), (&url.URL{Scheme: "sqlite", Path: filepath.Join(b.TempDir(), "order.db")}).String(), dial.StoreConfig{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			run := inTx(db)
			if err := run(b.Context(), func(tx *sql.Tx) error {
				_, err := tx.ExecContext(b.Context(), `CREATE TABLE orders (id TEXT PRIMARY KEY)`)
				return err
			}); err != nil {
				b.Fatal(err)
			}
			s := direct.New(pub, direct.InOutbox(db, run), direct.Config{})
			n := 0
			for b.Loop() {
				n++
				order(b, run, db, s, fmt.Sprint("o-", n), way.outbox, way.direct)
			}
			if stats := s.Stats(); stats.Stored > 0 {
				b.Fatalf("%+v", stats)
			}
		})
	}
}

func order(b *testing.B, run func(context.Context, func(*sql.Tx) error) error, db *dial.Database, s *direct.Sender, id string, inOutbox, directly bool) {
	e := &settle.Event{Type: "order.created", AggregateID: id, Payload: []byte(`{"note":"as long as such things are"}`)}
	if err := run(b.Context(), func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(b.Context(), `INSERT INTO orders (id) VALUES (?)`, id); err != nil || !inOutbox {
			return err
		}
		return db.Append(b.Context(), tx, e)
	}); err != nil {
		b.Fatal(err)
	}
	if !directly {
		return
	}
	if _, err := s.Send(b.Context(), e); err != nil {
		b.Fatal(err)
	}
}
