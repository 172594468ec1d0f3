package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/dial"
)

// participant is one service of the shop at work on its database.
type participant interface {
	// reactions lists what its consumer group does, an event type each.
	reactions() []reaction
}

// reaction is what a service does on an event.
type reaction struct {
	on string
	do consumer.Handler[*sql.Tx]
	// undo gives up on the event: it undoes what may have happened of it,
	// outside too, and tells the others. It may be run again and again and does
	// nothing once the order has moved on. Nil: there is nothing to undo.
	undo consumer.Handler[*sql.Tx]
	// outside: do or undo calls an outside system, and runs alone.
	outside bool
}

// base is what every service has.
type base struct {
	db      *dial.Database
	now     func() time.Time
	rules   Rules
	outside outsiders
}

// connections is how many a service may have for its transactions in one
// process: a shop of a process for each role fits on a server that allows 100.
const connections = 4

// openService opens the database of a service and makes its business tables.
func openService(ctx context.Context, dir, service string, crash func(string)) (*dial.Database, error) {
	u, err := databaseURL(dir, service)
	if err != nil {
		return nil, err
	}
	if err := makeDatabase(ctx, u); err != nil {
		return nil, err
	}
	db, err := dial.Store(ctx, u, dial.StoreConfig{Service: service, MaxConns: connections, Crash: crash})
	if err != nil {
		return nil, err
	}
	if err := inTx(ctx, db, func(tx *sql.Tx) error { return makeTables(ctx, tx, db.Dialect, service) }); err != nil {
		return nil, errors.Join(fmt.Errorf("open the %s service: %w", service, err), db.Close())
	}
	return db, nil
}

// makeDatabase makes the MySQL database at a URL if it is missing. Other kinds
// are made when they are opened.
func makeDatabase(ctx context.Context, rawURL string) error {
	u, err := url.Parse(rawURL)
	if err != nil || !onMySQL(u) {
		return err
	}
	s, err := dial.Schema(ctx, rawURL, true)
	if err != nil {
		return err
	}
	return s.Close()
}
