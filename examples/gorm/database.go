package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/postgres"
)

// database is what the program works on, whichever kind it is. A program with
// one kind of database needs no such thing: it keeps its *postgres.Store or
// *mysql.Store.
type database struct {
	outbox settle.Outbox[*sql.Tx]
	inbox  settle.Inbox[*sql.Tx]
	// log gives each relay of a crew its own view of the outbox.
	log   func() relay.Store
	close func() error
	// gorm is how GORM reaches the same database.
	gorm gorm.Dialector
}

// openDatabase opens the database of a URL: postgres://… or mysql://….
func openDatabase(ctx context.Context, at string) (database, error) {
	u, err := url.Parse(at)
	if err != nil {
		return database{}, fmt.Errorf("read the database's URL: %w", err)
	}
	if u.Scheme == "mysql" || u.Scheme == "mariadb" {
		s, err := mysql.Open(ctx, at, mysql.Config{})
		if err != nil {
			return database{}, err
		}
		return database{outbox: s, inbox: s.Inbox(), log: func() relay.Store { return s.Log() }, close: s.Close, gorm: gormmysql.Open(mysqlDSN(u))}, nil
	}
	s, err := postgres.Open(ctx, at, postgres.Config{})
	if err != nil {
		return database{}, err
	}
	return database{outbox: s, inbox: s.Inbox(), log: func() relay.Store { return s.Log() }, close: s.Close, gorm: gormpostgres.Open(at)}, nil
}

// mysqlDSN is a URL as the driver takes it. Times are UTC, as Settle's are.
func mysqlDSN(u *url.URL) string {
	c := mysqldriver.NewConfig()
	c.Net, c.Addr, c.DBName = "tcp", u.Host, u.Path[1:]
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.ParseTime, c.Loc, c.Params = true, time.UTC, map[string]string{"time_zone": "'+00:00'"}
	return c.FormatDSN()
}
