// Quickstart: a row and its event in one transaction, a crew of relays (one for each lane), a consumer, one effect.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/broker/nats/embedded"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/sqlite"
)

func main() {
	dir, err := os.MkdirTemp("", "quickstart-")
	must(err)
	store, err := sqlite.Open(context.Background(), filepath.Join(dir, "app.db"), sqlite.Config{})
	must(err)
	server, err := embedded.Start(embedded.Config{Dir: filepath.Join(dir, "broker")})
	must(err)
	broker, err := nats.Open(context.Background(), server.URL(), nats.Config{Declare: true})
	must(err)
	ctx, stop := context.WithCancel(context.Background())

	// The fact and its event: both are there after the commit, or neither.
	tx, err := store.Begin(ctx)
	must(err)
	_, err = tx.ExecContext(ctx, `CREATE TABLE orders (id TEXT PRIMARY KEY); CREATE TABLE mails (text TEXT); INSERT INTO orders VALUES ('o-1')`)
	must(err)
	must(store.Append(ctx, tx, &settle.Event{Type: "order.created", AggregateID: "o-1", Payload: []byte(`{"amount":"11.77"}`)}))
	must(tx.Commit())

	// The effect: in one transaction with the note that this event is done.
	mailer := consumer.New("mailer", broker, store.Inbox(), consumer.Config{})
	mailer.Handle("order.created", func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
		defer stop() // ends the program; what is in hand is committed first
		_, err := tx.ExecContext(ctx, `INSERT INTO mails VALUES (?)`, "thank you for "+e.AggregateID)
		return err
	})
	relayed, crew := make(chan error), relay.NewCrew(func() relay.Store { return store.Log() }, broker, relay.Config{})
	go func() { relayed <- crew.Run(ctx) }()
	must(errors.Join(mailer.Run(ctx), <-relayed))

	var text string
	must(store.Reader().QueryRow(`SELECT text FROM mails`).Scan(&text))
	fmt.Println(text)
	must(errors.Join(broker.Close(), server.Close(), store.Close(), os.RemoveAll(dir)))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
