package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // sql.Open("pgx", …)
	"gorm.io/gorm"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

// databases are the URLs of databases of the test's own, by kind. They are
// dropped when it ends.
var databases = map[string]func(t *testing.T) string{"PostgreSQL": onPostgres, "MySQL": onMySQL}

// server returns the URL that a variable names, or skips the test.
func server(t *testing.T, variable, service string) *url.URL {
	t.Helper()
	at := os.Getenv(variable)
	if at == "" {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not set: export it with the URL that `scripts/services up %s` prints", variable, service)
		}
		t.Skipf("SKIPPED, NOTHING OF THIS IS PROVED: %s is not set; `scripts/services up %s` prints its value", variable, service)
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatalf("%s can't be read", variable)
	}
	return u
}

func onPostgres(t *testing.T) string {
	u := server(t, "SETTLE_TEST_POSTGRES", "postgres")
	at, schema := u.String(), "test_"+strings.ReplaceAll(settle.NewID(), "-", "")
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	t.Cleanup(func() { execute(t, "pgx", at, "DROP SCHEMA IF EXISTS "+schema+" CASCADE") })
	return u.String()
}

func onMySQL(t *testing.T) string {
	u := server(t, "SETTLE_TEST_MYSQL", "mariadb")
	dsn, name := mysqlDSN(u), "test_"+strings.ReplaceAll(settle.NewID(), "-", "")
	execute(t, "mysql", dsn, "CREATE DATABASE "+name)
	t.Cleanup(func() { execute(t, "mysql", dsn, "DROP DATABASE "+name) })
	u.Path = "/" + name
	return u.String()
}

func execute(t *testing.T, driver, dsn, query string) {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = db.Exec(query); errors.Join(err, db.Close()) != nil {
		t.Error(err)
	}
}

func TestAnOrderPlacedThroughGORMHasItsEffect(t *testing.T) {
	for kind, own := range databases {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if err := run(t.Context(), own(t), &out); err != nil {
				t.Fatal(err)
			}
			if out.String() != "Thank you, Ada, for 11.77\n" {
				t.Errorf("printed %q", out.String())
			}
		})
	}
}

// service is the order service on a database, in one of GORM's modes.
type service struct {
	*testing.T
	*orders
	store database
}

// inBothModes runs f on each kind of database, with and without prepared
// statements.
func inBothModes(t *testing.T, f func(s service)) {
	for kind, own := range databases {
		for name, cfg := range map[string]gorm.Config{"plain": {}, "prepared statements": {PrepareStmt: true}} {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				store, err := openDatabase(t.Context(), own(t))
				if err != nil {
					t.Fatal(err)
				}
				db, done, err := open(store.gorm, &cfg)
				if err != nil {
					t.Fatal(errors.Join(err, store.close()))
				}
				t.Cleanup(func() {
					if err := errors.Join(done(), store.close()); err != nil {
						t.Error(err)
					}
				})
				f(service{t, &orders{db: db, outbox: store.outbox}, store})
			})
		}
	}
}

// told is a broker that only notes whose events it got.
type told chan string

func (b told) Publish(_ context.Context, batch []settle.Message) []settle.Receipt {
	receipts := make([]settle.Receipt, len(batch))
	for i, m := range batch {
		receipts[i].At = settle.Coordinates{Topic: m.Event.Topic, Offset: 1}
		b <- m.Event.AggregateID
	}
	return receipts
}

// wantSent relays and wants the events of these orders, in this order.
func (s service) wantSent(orders ...string) {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	broker, ended := make(told, 100), make(chan error)
	go func() { ended <- relay.NewCrew(s.store.log, broker, relay.Config{}).Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	}()
	for _, want := range orders {
		select {
		case got := <-broker:
			if got != want {
				s.Errorf("the event of order %s was sent, want that of %s", got, want)
			}
		case err := <-ended:
			s.Fatalf("the relay has ended: %v", err)
		}
	}
}

// wantOrders checks which orders are in the business's table.
func (s service) wantOrders(want string) {
	s.Helper()
	var ids []string
	if err := s.db.Model(&Order{}).Order("id").Pluck("id", &ids).Error; err != nil || strings.Join(ids, " ") != want {
		s.Errorf("orders are %v, %v; want %s", ids, err, want)
	}
}

var errNo = errors.New("no")

func TestAnEventOfATransactionThatRollsBackIsNotSent(t *testing.T) {
	inBothModes(t, func(s service) {
		err := s.db.Transaction(func(tx *gorm.DB) error {
			o := Order{ID: "1-undone", Amount: "1"}
			return errors.Join(tx.Create(&o).Error, s.created(tx, o), errNo)
		})
		if !errors.Is(err, errNo) || strings.Contains(err.Error(), "\n") {
			s.Fatalf("the transaction ends with %v", err)
		}
		if err := s.place(s.Context(), Order{ID: "2-kept", Amount: "1"}); err != nil {
			s.Fatal(err)
		}
		s.wantOrders("2-kept")
		s.wantSent("2-kept")
	})
}

func TestAnEventOfANestedTransactionGoesWithItsSavepoint(t *testing.T) {
	inBothModes(t, func(s service) {
		err := s.db.Transaction(func(tx *gorm.DB) error {
			outer, inner, last := Order{ID: "1-outer", Amount: "1"}, Order{ID: "2-inner", Amount: "1"}, Order{ID: "3-last", Amount: "1"}
			undone := tx.Transaction(func(tx *gorm.DB) error {
				return errors.Join(tx.Create(&inner).Error, s.created(tx, inner), errNo)
			})
			if !errors.Is(undone, errNo) || strings.Contains(undone.Error(), "\n") {
				return undone
			}
			kept := tx.Transaction(func(tx *gorm.DB) error { return errors.Join(tx.Create(&last).Error, s.created(tx, last)) })
			return errors.Join(tx.Create(&outer).Error, s.created(tx, outer), kept)
		})
		if err != nil {
			s.Fatal(err)
		}
		s.wantOrders("1-outer 3-last")
		s.wantSent("3-last", "1-outer")
	})
}

func TestAnEventThatFailsUndoesTheOrder(t *testing.T) {
	inBothModes(t, func(s service) {
		err := s.db.Transaction(func(tx *gorm.DB) error {
			if err := tx.Create(&Order{ID: "1", Amount: "1"}).Error; err != nil {
				return err
			}
			return appendEvent(tx, s.outbox, &settle.Event{Type: "order.created", AggregateID: "1", Payload: []byte(`{`)})
		})
		var invalid *settle.InvalidEventError
		if !errors.As(err, &invalid) {
			s.Fatalf("the transaction ends with %v", err)
		}
		s.wantOrders("")
	})
}

func TestAnEventOutsideOfATransactionIsRefused(t *testing.T) {
	inBothModes(t, func(s service) {
		err := s.created(s.db.WithContext(s.Context()), Order{ID: "1"})
		if err == nil || !strings.Contains(err.Error(), "is no transaction; call it within db.Transaction") {
			s.Errorf("says %v", err)
		}
	})
}

func TestAHandlerThatFailsLeavesNothingThatItWroteThroughGORM(t *testing.T) {
	inBothModes(t, func(s service) {
		e := &settle.Event{ID: settle.NewID(), Type: "order.created", AggregateID: "1", Payload: []byte(`{"orderId":"1"}`)}
		item := settle.Item{Attempt: 1, Record: settle.Record{Event: e, Raw: settle.AppendEnvelope(nil, e), Key: "1"}}
		for _, fails := range []error{errNo, nil} {
			_, err := s.store.inbox.Apply(s.Context(), settle.Work{Group: "mailer", Items: []settle.Item{item}}, func(ctx context.Context, tx *sql.Tx, _ int) error {
				return errors.Join(s.thank(ctx, tx, e), within(ctx, s.db, tx).Transaction(func(tx *gorm.DB) error { return fails }))
			})
			if err != nil {
				s.Fatal(err)
			}
			var mails int64
			if err := s.db.Model(&Mail{}).Count(&mails).Error; err != nil || (mails == 0) != (fails != nil) {
				s.Errorf("after a handler that says %v there are %d mails, %v", fails, mails, err)
			}
		}
	})
}
