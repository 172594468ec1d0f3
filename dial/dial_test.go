package dial_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // sql.Open("mysql", …)
	_ "github.com/jackc/pgx/v5/stdlib" // sql.Open("pgx", …)

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/internal/services"
)

func TestAWrongURLNamesTheWrongWordAndTheRightOnes(t *testing.T) {
	broker := func(u string) error { _, err := dial.Broker(t.Context(), u, dial.BrokerConfig{}); return err }
	store := func(u string) error { _, err := dial.Store(t.Context(), u, dial.StoreConfig{}); return err }
	tap := func(u string) error { _, err := dial.Tap(u); return err }
	for _, c := range []struct {
		name        string
		open        func(string) error
		url         string
		wrong, want string
	}{
		{"unknown broker", broker, "kafke://h:1", `"kafke"`, "nats://TOKEN@host:port,host:port or kafka://user:password@host:port,host:port or rabbitmq://user:password@host:port/vhost or rocketmq://accesskey:secretkey@host:port,host:port or memory:"},
		{"no scheme", broker, "localhost", `"localhost"`, "nats://"},
		{"nothing", broker, "", `""`, "nats://"},
		{"no host", broker, "nats://s3cret@", "not host:port", "nats://"},
		{"no port", broker, "nats://s3cret@h", `"h" is not host:port`, "nats://"},
		{"option", broker, "nats://s3cret@h:4222?ssl=true", `no option "ssl"`, "nats://"},
		{"bad port", broker, "nats://s3cret@h:x", `"h:x" is not host:port`, "nats://"},
		{"path", broker, "nats://s3cret@h:1/topic", "there is a path", "nats://"},
		{"no vhost of RabbitMQ", broker, "amqps://ann:s3cret@h:1/a/b", "more than a virtual host", "rabbitmq://user:password@host:port/vhost"},
		{"no secret key of RocketMQ", broker, "rocketmq://ann@h:1", "accesskey:secretkey", "rocketmq://accesskey:secretkey@host:port"},
		{"option of RocketMQ", broker, "rocketmq://ann:s3cret@h:1?any=yes", "any is true or false", "rocketmq://"},
		{"unknown database", store, "sqlite3:///x", `"sqlite3"`, "sqlite:///absolute/path.db"},
		{"relative path", store, "sqlite:x.db", `"x.db"`, "sqlite:///"},
		{"path taken for a host", store, "sqlite://x.db", `"x.db"`, "sqlite:///"},
		{"no host of a server", store, "postgres:///shop", "no host", "postgres://user:password@host:port/name"},
		{"no name of a database", store, "postgres://ann:s3cret@h:1", `behind "h:1"`, "postgres://"},
		{"port of a server", store, "postgres://ann:s3cret@h:x/shop", "can't be read", "postgres://"},
		{"no host of a MySQL server", store, "mysql:///shop", "no host", "mysql://user:password@host:port/name"},
		{"no name of a MySQL database", store, "mariadb://ann:s3cret@h:1", `behind "h:1"`, "mysql://"},
		{"no path", store, "sqlite:///", "no absolute path", "sqlite:///"},
		{"tap without a log", tap, "memory:", `"memory"`, "nats://"},
	} {
		err := c.open(c.url)
		var bad *dial.URLError
		switch {
		case !errors.As(err, &bad):
			t.Errorf("%s: got %v, want a *URLError", c.name, err)
		case !strings.Contains(err.Error(), c.wrong) || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %q does not name %s and %s", c.name, err, c.wrong, c.want)
		case strings.Contains(err.Error(), "s3cret"):
			t.Errorf("%s: %q shows the token", c.name, err)
		}
	}
}

func TestADatabaseIsMadeAndKeepsWhatWasAppended(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		keepsWhatWasAppended(t, (&url.URL{Scheme: "sqlite", Path: filepath.Join(t.TempDir(), "a b.db")}).String(), dial.SQLite)
	})
	t.Run("PostgreSQL", func(t *testing.T) { keepsWhatWasAppended(t, postgresSchema(t), dial.Postgres) })
	t.Run("MariaDB", func(t *testing.T) { keepsWhatWasAppended(t, mysqlDatabase(t), dial.MySQL) })
}

func keepsWhatWasAppended(t *testing.T, u string, dialect dial.Dialect) {
	if _, err := dial.Store(t.Context(), u, dial.StoreConfig{Existing: true}); err == nil {
		t.Fatal("a database without tables was taken for one with")
	}
	for range 2 {
		db, err := dial.Store(t.Context(), u, dial.StoreConfig{})
		if err != nil {
			t.Fatal(err)
		}
		tx, err := db.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Append(t.Context(), tx, &settle.Event{Type: "thing.done", AggregateID: "1", Payload: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	db, err := dial.Store(t.Context(), u, dial.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	steps, err := db.Governance.Trail(t.Context(), "1")
	if err != nil || len(steps) != 2 || db.Dialect != dialect || db.Log == nil || db.Inbox == nil {
		t.Errorf("trail of the key: %v, %v; want two steps of %+v", steps, err, db)
	}
}

// postgresSchema returns the URL of a schema that does not exist yet and is
// dropped when the test ends.
func postgresSchema(t *testing.T) string {
	t.Helper()
	at := services.URL(t, "SETTLE_TEST_POSTGRES", "postgres")
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("SETTLE_TEST_POSTGRES can't be read")
	}
	schema := "test_" + strings.ReplaceAll(settle.NewID(), "-", "")
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	t.Cleanup(func() {
		db, err := sql.Open("pgx", at)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if _, err := db.ExecContext(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
			t.Errorf("drop the test's schema: %v", err)
		}
	})
	return u.String()
}

// mysqlDatabase returns the URL of a new database, which is dropped when the
// test ends.
func mysqlDatabase(t *testing.T) string {
	t.Helper()
	at := services.URL(t, "SETTLE_TEST_MYSQL", "mariadb")
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("SETTLE_TEST_MYSQL can't be read")
	}
	password, _ := u.User.Password()
	db, err := sql.Open("mysql", u.User.Username()+":"+password+"@tcp("+u.Host+")/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	name := "test_" + strings.ReplaceAll(settle.NewID(), "-", "")
	u.Path = "/" + name
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if _, err := db.ExecContext(ctx, "DROP DATABASE IF EXISTS "+name); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return u.String()
}

func TestADatabaseInAMissingDirectoryIsNoMatterOfTheURL(t *testing.T) {
	_, err := dial.Store(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "none", "x.db"), dial.StoreConfig{})
	var bad *dial.URLError
	if err == nil || errors.As(err, &bad) {
		t.Errorf("got %v", err)
	}
}

func TestAServedBrokerTakesMessagesUntilItIsEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	dir := filepath.Join(t.TempDir(), "broker")
	go func() {
		ended <- dial.ServeBroker(ctx, dial.ServerConfig{Dir: dir, Ready: func(u string) { ready <- u }})
	}()
	var at string
	select {
	case at = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	b, err := dial.Broker(t.Context(), at, dial.BrokerConfig{Topics: []string{settle.DefaultTopic}})
	if err != nil {
		t.Fatal(err)
	}
	e := &settle.Event{Type: "thing.done", AggregateID: "1", Payload: []byte("{}")}
	if err := e.Prepare(time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := b.Publish(t.Context(), []settle.Message{{ID: e.ID, Event: e}}); got[0].Err != nil {
		t.Error(got[0].Err)
	}
	tap, err := dial.Tap(at)
	if err != nil {
		t.Fatal(err)
	}
	records := 0
	if err := tap.ReadAll(t.Context(), settle.DefaultTopic, func(settle.Record) error { records++; return nil }); err != nil || records != 1 {
		t.Errorf("the log holds %d records, %v; want one", records, err)
	}
	_ = tap.Close()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}
