package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/settlemq/settle/dial"
)

// DropDatabase removes the schemas, or on MySQL the databases, that the shop in
// dir has on a server; there are none where it keeps its tables in files. Nobody may use
// them any more. After an error some may be left, and it may be called again.
func DropDatabase(ctx context.Context, dir string) error {
	if _, server := Holds(dir); !server {
		return nil
	}
	all, err := Databases(dir)
	if err != nil {
		return err
	}
	for _, d := range all {
		if err := dropSchema(ctx, d); err != nil {
			return fmt.Errorf("remove the tables of the %s service: %w", d.Service, err)
		}
	}
	return nil
}

// The name is one that UseDatabase has made.
const (
	dropSchemaSQL   = `DROP SCHEMA IF EXISTS %s CASCADE`
	dropDatabaseSQL = `DROP DATABASE IF EXISTS %s`
)

func dropSchema(ctx context.Context, d Database) error {
	db, err := dial.Store(ctx, d.URL, dial.StoreConfig{Service: d.Service, Existing: true})
	if errors.Is(err, dial.ErrForeign) {
		return nil // it was not made yet, or is gone
	}
	if err != nil {
		return err
	}
	drop := dropSchemaSQL
	if db.Dialect == dial.MySQL {
		drop = dropDatabaseSQL
	}
	err = inTx(ctx, db, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, fmt.Sprintf(drop, d.Schema))
		return err
	})
	return errors.Join(err, db.Close())
}

// DropStatements is the SQL by which a person removes what DropDatabase does;
// empty for files.
func DropStatements(databases []Database) string {
	var names, each []string
	for _, d := range databases {
		u, err := url.Parse(d.URL)
		switch {
		case err != nil || d.Schema == "":
		case onMySQL(u):
			each = append(each, "DROP DATABASE "+d.Schema)
		default:
			names = append(names, d.Schema)
		}
	}
	if len(names) > 0 {
		each = append(each, "DROP SCHEMA "+strings.Join(names, ", ")+" CASCADE")
	}
	return strings.Join(each, "; ")
}
