package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/settlemq/settle/dial"
)

// DropDatabase removes the schemas that the shop in dir has in a PostgreSQL
// database; there are none where it keeps its tables in files. Nobody may use
// them any more. After an error some may be left, and it may be called again.
func DropDatabase(ctx context.Context, dir string) error {
	if _, postgres := Holds(dir); !postgres {
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
const dropTables = `DROP SCHEMA IF EXISTS %s CASCADE`

func dropSchema(ctx context.Context, d Database) error {
	db, err := dial.Store(ctx, d.URL, dial.StoreConfig{Service: d.Service, Existing: true})
	if errors.Is(err, dial.ErrForeign) {
		return nil // it was not made yet, or is gone
	}
	if err != nil {
		return err
	}
	err = inTx(ctx, db, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, fmt.Sprintf(dropTables, d.Schema))
		return err
	})
	return errors.Join(err, db.Close())
}
