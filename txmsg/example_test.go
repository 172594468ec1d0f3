package txmsg_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/sqlite"
	"github.com/settlemq/settle/txmsg"
	"github.com/settlemq/settle/txmsg/txmsgtest"
)

// An order and its event: the broker keeps the message back until the order is
// committed. On RocketMQ the broker is rocketmq.Broker.Halves, or
// dial.HalfMessages.
func ExampleSender_Send() {
	dir, err := os.MkdirTemp("", "txmsg-")
	must(err)
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, stop := context.WithCancel(context.Background())
	store, err := sqlite.Open(ctx, filepath.Join(dir, "order.db"), sqlite.Config{})
	must(err)
	_, err = store.DB().ExecContext(ctx, `CREATE TABLE orders (id TEXT PRIMARY KEY)`)
	must(err)
	broker := &txmsgtest.Memory{}

	sender := txmsg.New(store.Halves(), broker.Connect(), txmsg.Config{Source: "order"})
	done := make(chan error)
	go func() { done <- sender.Run(ctx) }()
	event := &settle.Event{Type: "order.created", AggregateID: "o-1", Payload: []byte(`{"amount":"11.77"}`)}
	sent, err := sender.Send(ctx, event, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO orders VALUES (?)`, event.AggregateID)
		return err
	})
	must(err)
	fmt.Println("the broker delivers it:", sent.Confirmed)

	stop()
	must(<-done)
	steps, err := store.Governance().Trail(context.Background(), "o-1")
	must(err)
	for _, s := range steps {
		fmt.Println(s.Stage)
	}
	must(store.Close())
	// Output:
	// the broker delivers it: true
	// half
	// committed
	// confirmed
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
