package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/settlemq/settle/dial"
)

// maxStock bounds what there can be of one article.
const maxStock = 1_000_000_000_000

// Level is how much of one article there is to be, all told: what is on the
// shelf, what is reserved and what is sold.
type Level struct {
	SKU      string
	Quantity int64
}

const raiseStock = `INSERT INTO t_stock (sku, initial_qty, available, reserved, sold) VALUES ($1, $2, $2, 0, 0)
ON CONFLICT (sku) DO UPDATE SET available = t_stock.available + $2 - t_stock.initial_qty, initial_qty = $2 WHERE $2 > t_stock.initial_qty`

// Stock makes articles known to the inventory in dir and raises what ever came
// in of each to its level; one that has come in already is left as it is, so
// Stock may be repeated. All levels are set, or none. It may be called while a
// shop runs in dir and blocks until the inventory's database has a turn for it.
func Stock(ctx context.Context, dir string, levels ...Level) error {
	for _, l := range levels {
		if why := badName(l.SKU); why != "" {
			return fmt.Errorf("stock %q: the name %s", l.SKU, why)
		}
		if l.Quantity < 0 || l.Quantity > maxStock {
			return fmt.Errorf("stock %s: quantity %d is not between 0 and %d", l.SKU, l.Quantity, int64(maxStock))
		}
	}
	m, err := openMember(ctx, "inventory", Config{Dir: dir})
	if err != nil {
		return err
	}
	err = inTx(ctx, m.db, func(tx *sql.Tx) error { return raise(ctx, m.db, tx, levels) })
	return errors.Join(err, m.db.Close())
}

func raise(ctx context.Context, db *dial.Database, tx *sql.Tx, levels []Level) error {
	for _, l := range levels {
		if _, err := exec(ctx, db, tx, raiseStock, l.SKU, l.Quantity); err != nil {
			return fmt.Errorf("stock %s: %w", l.SKU, err)
		}
	}
	return nil
}
