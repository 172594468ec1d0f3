package direct_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/nats/embedded"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/direct"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/settletest"
)

// A service of one order, which is a process of its own and dies where envDie says.
const (
	envDie    = "DIRECT_TEST_DIE"
	envDB     = "DIRECT_TEST_DB"
	envBroker = "DIRECT_TEST_BROKER"

	dieBefore = "between the commit and the send"
	dieInside = "when the broker has failed, before the event is stored"
	dieAfter  = "when the event is stored"
	dieSent   = "when the event is sent"
)

func TestMain(m *testing.M) {
	if at := os.Getenv(envDie); at != "" {
		if err := service(context.Background(), at); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// failing answers for nothing, and ends the process if it is to die then.
type failing struct{ dies bool }

func (f failing) Publish(context.Context, []settle.Message) []settle.Receipt {
	if f.dies {
		die()
	}
	return []settle.Receipt{{Err: &settle.PublishError{Scope: settle.ScopeBroker, Err: errors.New("it is away")}}}
}

func service(ctx context.Context, at string) error {
	db, err := dial.Store(ctx, os.Getenv(envDB), dial.StoreConfig{})
	if err != nil {
		return err
	}
	if err := inTx(db)(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO orders (id) VALUES ('o-1')`)
		return err
	}); err != nil {
		return err
	}
	var pub settle.Publisher = failing{dies: at == dieInside}
	if at == dieSent {
		if pub, err = dial.Broker(ctx, os.Getenv(envBroker), dial.BrokerConfig{Topics: []string{settle.DefaultTopic}}); err != nil {
			return err
		}
	}
	// Crash here: the order is stored, and its event is nowhere.
	if at == dieBefore {
		die()
	}
	e := &settle.Event{ID: "e-1", Type: "order.created", AggregateID: "o-1", Payload: []byte("{}")}
	if _, err := direct.New(pub, direct.InOutbox(db, inTx(db)), direct.Config{Source: "order"}).Send(ctx, e); err != nil {
		return err
	}
	die()
	return nil
}

// inTx runs functions in transactions of a database.
func inTx(db *dial.Database) func(context.Context, func(*sql.Tx) error) error {
	return func(ctx context.Context, f func(*sql.Tx) error) error {
		tx, err := db.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := f(tx); err != nil {
			return err
		}
		return tx.Commit()
	}
}

func opened(t *testing.T) (at string, db *dial.Database) {
	t.Helper()
	at = (&url.URL{Scheme: "sqlite", Path: filepath.Join(t.TempDir(), "order.db")}).String()
	db, err := dial.Store(t.Context(), at, dial.StoreConfig{Service: "order"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return at, db
}

func number(t *testing.T, db *dial.Database, query string) (n int) {
	t.Helper()
	if err := db.Reader.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAProcessThatDiesBetweenCommitAndSendLosesTheEventAndNothingButAComparisonFindsIt(t *testing.T) {
	bus, err := embedded.Start(embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bus.Close() })
	for at, lost := range map[string]bool{dieBefore: true, dieInside: true, dieAfter: false, dieSent: false} {
		t.Run(at, func(t *testing.T) {
			path, db := opened(t)
			if err := inTx(db)(t.Context(), func(tx *sql.Tx) error {
				_, err := tx.ExecContext(t.Context(), `CREATE TABLE orders (id TEXT PRIMARY KEY)`)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			child := exec.CommandContext(t.Context(), os.Args[0])
			child.Env = append(os.Environ(), envDie+"="+at, envDB+"="+path, envBroker+"="+bus.URL())
			var said bytes.Buffer
			child.Stderr = &said
			err := child.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the service did not die by its own hand: %v\n%s", err, &said)
			}
			if n := number(t, db, `SELECT count(*) FROM orders`); n != 1 {
				t.Fatalf("%d orders are stored", n)
			}
			found := number(t, db, `SELECT count(*) FROM t_outbox_event`) + records(t, bus.URL())
			if found != map[bool]int{true: 0, false: 1}[lost] {
				t.Errorf("the event is in %d places", found)
			}
		})
	}
}

// records counts what the broker has, and removes it.
func records(t *testing.T, at string) (n int) {
	t.Helper()
	tap, err := dial.Tap(at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tap.Close() }()
	if err := tap.ReadAll(t.Context(), settle.DefaultTopic, func(settle.Record) error { n++; return nil }); err != nil {
		return 0 // there was never an event
	}
	if err := tap.Remove(t.Context(), settle.DefaultTopic, nil); err != nil {
		t.Error(err)
	}
	return n
}

func TestWhatFailedIsSentByTheRelayOrBecomesADeadLetterThatIsFoundByItsOrder(t *testing.T) {
	_, db := opened(t)
	s := direct.New(failing{}, direct.InOutbox(db, inTx(db)), direct.Config{Logger: quiet})
	for _, e := range []*settle.Event{
		{ID: "e-1", Type: "order.created", AggregateID: "o-1", Payload: []byte("{}")},
		{ID: "e-2", Type: "order.refused", AggregateID: "o-2", Payload: []byte("{}")},
		{ID: "e-1", Type: "order.created", AggregateID: "o-1", Payload: []byte("{}")}, // a caller that does not know goes on
	} {
		if got, err := s.Send(t.Context(), e); got != direct.Stored || err != nil {
			t.Fatalf("%v, %v", got, err)
		}
	}
	pub := &picky{sent: make(chan string, 10)}
	settletest.Run(t, relay.New(db.Log, pub, relay.Config{Retry: settle.Backoff{Attempts: 2, Base: time.Millisecond}, Logger: quiet}))
	if id := <-pub.sent; id != "e-1" {
		t.Errorf("%s is sent", id)
	}
	for {
		letters, err := db.Governance.DeadLetters(t.Context(), govern.Filter{Key: "o-2"})
		if err != nil {
			t.Fatal(err)
		}
		if len(letters) == 1 && letters[0].EventID == "e-2" && letters[0].Attempts == 2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(pub.sent) > 0 {
		t.Errorf("%s is sent, too", <-pub.sent)
	}
}

// picky takes what was created.
type picky struct{ sent chan string }

func (p *picky) Publish(_ context.Context, batch []settle.Message) []settle.Receipt {
	receipts := make([]settle.Receipt, len(batch))
	for i, m := range batch {
		if m.Event.Type == "order.created" {
			p.sent <- m.ID
			continue
		}
		receipts[i].Err = &settle.PublishError{Scope: settle.ScopeRecord, Err: errors.New("nobody takes it")}
	}
	return receipts
}
