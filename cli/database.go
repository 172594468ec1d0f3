package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/settlemq/settle/examples/shop"
	"github.com/settlemq/settle/server"
)

// shopDatabase is the database that --db names for a shop, if any.
type shopDatabase struct{ text, url string }

const databaseUsage = "PostgreSQL database for the services' tables, a schema each, as postgres://user:password@host:port/name, or a MySQL or MariaDB\n" +
	"server, a database each, as mysql://user:password@host:port/; " +
	"${NAME} and ${file:/path} in it are replaced, so that no password need stand here (default: a file each in --dir)"

// check looks at what was named. It asks no server.
func (d *shopDatabase) check() error {
	if d.text == "" {
		return nil
	}
	at, err := server.Expand(d.text)
	if err == nil {
		err = shop.CheckDatabase(at)
	}
	if err != nil {
		return usagef("--db: %w", err)
	}
	d.url = at
	return nil
}

// use notes it in a shop's directory, once it has answered.
func (d *shopDatabase) use(ctx context.Context, dir string) error {
	if d.url == "" {
		return nil
	}
	if err := shop.PingDatabase(ctx, d.url); err != nil {
		return unreachablef("--db: %w", d.hide(err))
	}
	err := shop.UseDatabase(dir, d.url)
	switch {
	case errors.Is(err, shop.ErrElsewhere):
		return usagef("--db: %w; leave --db out, or name another directory", d.hide(err))
	case err != nil:
		return unreachablef("%w", d.hide(err))
	}
	return nil
}

// isMySQL tells MySQL and MariaDB from the others.
func (d *shopDatabase) isMySQL() bool {
	return strings.HasPrefix(d.url, "mysql:") || strings.HasPrefix(d.url, "mariadb:")
}

// hide takes the password out of an error.
func (d *shopDatabase) hide(err error) error {
	return server.Config{Sources: map[string]server.SourceConfig{"": {DB: d.url}}}.HideError(err)
}
