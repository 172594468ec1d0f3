package adopted

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// Service is a service that had tables before Settle.
type Service struct {
	testing.TB
	Dialect
	// DB are the service's own sessions, as the server makes them.
	DB *sql.DB
	// Schema of the service's tables, and that of Settle's, which need not exist.
	Schema, Own string
	// Adopt adopts tables of the service; Script returns the SQL that does it, and
	// RunScript runs it.
	Adopt     func(ctx context.Context, cfg migrate.AdoptConfig) (migrate.AdoptPlan, error)
	Script    func(cfg migrate.AdoptConfig) (string, error)
	RunScript func(script string) error
	// Open opens Settle's tables, which are there. TryOpen reports whether that
	// can be done, existing whether by a process that changes no tables.
	Open    func(Options) Store
	TryOpen func(existing bool) error
	// More opens them as one more process that leads lanes.
	More func() func() concurrent.LaneStore
	// Inbox opens them for the suite of the inbox.
	Inbox func() storetest.InboxStore[*sql.Tx]
	// Doctor examines them.
	Doctor func() ([]doctor.Finding, error)
}

// Options of a store. The zero value works.
type Options struct {
	// Clock instead of the database's. Defaults to the database's.
	Clock func() time.Time
	// MaxConns of the business. Defaults to the store's own.
	MaxConns int
}

// Store is what a process has of a service's database.
type Store struct {
	Inbox      settle.Inbox[*sql.Tx]
	Outbox     settle.Outbox[*sql.Tx]
	Log        relay.Store
	Governance interface {
		govern.Store
		govern.Divider
	}
	DB *sql.DB
}

// Open makes a service with tables of its own, which goes when t ends.
type Open func(t testing.TB, tables ...string) *Service

func (s *Service) exec(query string, args ...any) {
	s.Helper()
	if _, err := s.DB.ExecContext(context.Background(), s.sql(query), args...); err != nil {
		s.Fatalf("%v\n%s", err, query)
	}
}

// texts returns what a query of one text gives.
func (s *Service) texts(query string, args ...any) (all []string) {
	s.Helper()
	rows, err := s.DB.QueryContext(context.Background(), s.sql(query), args...)
	if err != nil {
		s.Fatalf("%v\n%s", err, query)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			s.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		s.Fatal(err)
	}
	return all
}

// eventually waits for something that must come true, and tells what is there
// if it does not.
func eventually(t testing.TB, what string, is func() (string, bool)) {
	t.Helper()
	for until := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		got, ok := is()
		if ok {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%s: there is %s", what, got)
		}
	}
}
