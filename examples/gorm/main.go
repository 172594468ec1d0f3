// An order service as a GORM user writes it: an order and its event in one
// transaction on PostgreSQL or MySQL, a relay, and a consumer whose effect is a mail.
//
// The relay is a crew: one relay for each lane of the outbox, so that `settle
// outbox lanes` changes their number without a restart.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gorm.io/gorm"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/broker/nats/embedded"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/relay"
)

func main() {
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		fmt.Fprintln(os.Stderr, "set DATABASE_URL to postgres://user:password@127.0.0.1:5432/name or mysql://user:password@127.0.0.1:3306/name")
		os.Exit(2)
	}
	if err := run(context.Background(), url, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run places one order, waits for its mail, prints it, and ends everything.
func run(ctx context.Context, url string, out io.Writer) (err error) {
	store, err := openDatabase(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.close()) }()
	db, done, err := open(store.gorm, &gorm.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	dir, err := os.MkdirTemp("", "gorm-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := embedded.Start(embedded.Config{Dir: filepath.Join(dir, "broker")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	broker, err := nats.Open(ctx, server.URL(), nats.Config{Declare: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()

	s := &orders{db: db, outbox: store.outbox}
	o := Order{ID: "o-" + settle.NewID(), Customer: "Ada", Amount: "11.77"}
	if err := s.place(ctx, o); err != nil {
		return err
	}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	mailer := consumer.New("mailer", broker, store.inbox, consumer.Config{})
	mailer.Handle("order.created", func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
		if e.AggregateID == o.ID {
			defer stop() // ends the program; what is in hand is committed first
		}
		return s.thank(ctx, tx, e)
	})
	relayed := make(chan error, 1)
	crew := relay.NewCrew(store.log, broker, relay.Config{})
	go func() { relayed <- crew.Run(ctx) }()
	if err := mailer.Run(ctx); err != nil {
		stop()
		return errors.Join(err, <-relayed)
	}
	if err := <-relayed; err != nil {
		return err
	}

	var m Mail
	if err := db.Where("order_id = ?", o.ID).Take(&m).Error; err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, m.Text)
	return err
}

// open returns GORM's own pool on the database, with the tables of the
// business. It may be any pool, as long as it is the same database and schema.
func open(dialect gorm.Dialector, cfg *gorm.Config) (db *gorm.DB, done func() error, err error) {
	db, err = gorm.Open(dialect, cfg)
	if err != nil {
		return nil, nil, err
	}
	pool, err := db.DB()
	if err != nil {
		return nil, nil, err
	}
	if err := db.AutoMigrate(&Order{}, &Mail{}); err != nil {
		return nil, nil, errors.Join(err, pool.Close())
	}
	return db, pool.Close, nil
}
