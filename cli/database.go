package cli

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/examples/shop"
	"github.com/settlemq/settle/server"
)

// shopDatabase is the database that --db names for a shop, if any.
type shopDatabase struct{ text, url string }

const databaseUsage = "PostgreSQL database for the services' tables, a schema each, as postgres://user:password@host:port/name; " +
	"${NAME} and ${file:/path} in it are replaced, so that no password need stand here (default: a file each in --dir)"

// check looks at what was named. It asks no server.
func (d *shopDatabase) check() error {
	if d.text == "" {
		return nil
	}
	at, err := server.Expand(d.text)
	if err == nil {
		err = dial.CheckStore(at)
	}
	if err != nil {
		return usagef("--db: %w", err)
	}
	u, err := url.Parse(at)
	switch {
	case err != nil || !strings.HasPrefix(u.Scheme, "postgres"):
		return usagef("--db takes the URL of a PostgreSQL database; without it each service has a file in --dir")
	case u.Query().Has("search_path"):
		return usagef("--db names a search_path; leave it out, each service gets a schema of its own")
	}
	d.url = at
	return nil
}

// use notes it in a shop's directory, once it has answered.
func (d *shopDatabase) use(ctx context.Context, dir string) error {
	if d.url == "" {
		return nil
	}
	s, err := dial.Schema(ctx, d.url, false)
	if err != nil {
		return unreachablef("--db: %w", d.hide(err))
	}
	if err := s.Close(); err != nil {
		return unreachablef("--db: %w", d.hide(err))
	}
	err = shop.UseDatabase(dir, d.url)
	switch {
	case errors.Is(err, shop.ErrElsewhere):
		return usagef("--db: %w; leave --db out, or name another directory", d.hide(err))
	case err != nil:
		return unreachablef("%w", d.hide(err))
	}
	return nil
}

// hide takes the password out of an error.
func (d *shopDatabase) hide(err error) error {
	return server.Config{Sources: map[string]server.SourceConfig{"": {DB: d.url}}}.HideError(err)
}
