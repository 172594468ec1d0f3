package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/settlemq/settle/store/migrate"
)

// wayDown keeps writers out of a way down by giving the tables that they write
// into another name: a producer fails then, and nothing of it is lost. They have
// the first name from the last look on, and the second when that has found
// nothing: only then something is deleted, and there is no way back.
type wayDown struct {
	db *sql.DB
	// undelivered refuses while there is anything that would be lost.
	undelivered func(ctx context.Context, tx *sql.Tx) error
}

const (
	heldName = "_held" // a last look is to come
	leftName = "_left" // to be deleted
)

// writtenTables are those that others write into than a relay that leads. An
// outbox of another owner is a view here, and stays his.
var writtenTables = [...]string{"t_outbox_event", "t_consume_retry"}

var _ migrate.Stepwise = wayDown{}

const readLanes = `SELECT (SELECT count(*) FROM v_outbox_lane) > 1 OR EXISTS (SELECT 1 FROM t_outbox_division WHERE begun_at IS NULL)`

// Begin implements migrate.Stepwise.
func (w wayDown) Begin(ctx context.Context, to int64) error {
	var before string
	err := snapshot(ctx, w.db, func(tx *sql.Tx) (err error) {
		if err := w.undelivered(ctx, tx); err != nil {
			return err
		}
		before, err = w.stock(ctx, tx, "")
		return err
	})
	if err != nil || to > 0 {
		return errors.Join(err, w.oneLane(ctx, to))
	}
	if err := w.rename(ctx, "", heldName); err != nil {
		return fmt.Errorf("keep writers out: %w", explain(err))
	}
	// Crash here: writers fail until the next who looks lets them write again.
	if err := w.lastLook(ctx, before); err != nil {
		return errors.Join(err, w.rename(context.WithoutCancel(ctx), heldName, ""))
	}
	if err := w.rename(ctx, heldName, leftName); err != nil {
		return errors.Join(err, w.rename(context.WithoutCancel(ctx), heldName, ""))
	}
	// Crash here: whoever goes down next ends it.
	return nil
}

// oneLane refuses a way down to a program that knows of no lanes while there are
// several.
func (w wayDown) oneLane(ctx context.Context, to int64) error {
	if to == 0 {
		return nil
	}
	var several bool
	err := w.db.QueryRowContext(ctx, readLanes).Scan(&several)
	if err == nil && several {
		err = errors.New("the outbox is read by several lanes; order one by `settle outbox lanes SERVICE 1`, and wait until it reads")
	}
	return err
}

// countStock tells whether anything was stored, sent, deleted or ordered since:
// nobody leads, so what was delivered then still is.
const (
	countStock = `SELECT CONCAT_WS(' ', (SELECT CONCAT_WS(' ', count(*), coalesce(sum(id), 0), coalesce(max(id), 0)) FROM t_consume_retry%s),
 (SELECT count(*) FROM t_outbox_parked), (SELECT count(*) FROM t_outbox_delayed), (SELECT count(*) FROM t_outbox_extra))`

	countOwnStock = `SELECT CONCAT_WS(' ', count(*), coalesce(sum(id), 0), coalesce(max(id), 0)) FROM t_outbox_event%s`
)

func (w wayDown) stock(ctx context.Context, tx *sql.Tx, suffix string) (is string, err error) {
	there, err := w.names(ctx)
	if err == nil {
		err = tx.QueryRowContext(ctx, fmt.Sprintf(countStock, suffix)).Scan(&is)
	}
	if err != nil || !there["t_outbox_event"+suffix] {
		return is, err
	}
	var own string
	err = tx.QueryRowContext(ctx, fmt.Sprintf(countOwnStock, suffix)).Scan(&own)
	return is + " " + own, err
}

// lastLook is the look while nobody can write any more.
func (w wayDown) lastLook(ctx context.Context, before string) error {
	return snapshot(ctx, w.db, func(tx *sql.Tx) error {
		if err := nobodyLeads(ctx, tx); err != nil {
			return err
		}
		now, err := w.stock(ctx, tx, heldName)
		if err != nil {
			return fmt.Errorf("count what is not delivered: %w", explain(err))
		}
		if now != before {
			return fmt.Errorf("events came while this looked for those that are not delivered: %w", migrate.ErrUndelivered)
		}
		return nil
	})
}

const (
	// Whoever has written waits for nobody here; he is waited for.
	waitForWriters = `SET SESSION lock_wait_timeout = 10`
	waitAsBefore   = `SET SESSION lock_wait_timeout = DEFAULT`

	presentNames = `SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'`
)

// rename gives all tables that have one ending the other, at once.
func (w wayDown) rename(ctx context.Context, from, to string) error {
	there, err := w.names(ctx)
	if err != nil {
		return err
	}
	var pairs []string
	for _, table := range writtenTables {
		if there[table+from] {
			pairs = append(pairs, table+from+" TO "+table+to)
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, waitForWriters); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, "RENAME TABLE "+strings.Join(pairs, ", "))
	_, reset := conn.ExecContext(context.WithoutCancel(ctx), waitAsBefore)
	return errors.Join(err, reset)
}

func (w wayDown) names(ctx context.Context) (map[string]bool, error) {
	there := map[string]bool{}
	var name string
	err := each(ctx, w.db, []any{&name}, func() { there[name] = true }, presentNames)
	return there, err
}

// Begun implements migrate.Stepwise.
func (w wayDown) Begun(ctx context.Context) (bool, error) {
	if w.db == nil {
		return false, nil
	}
	there, err := w.names(ctx)
	if err != nil {
		return false, fmt.Errorf("look for a way down that has begun: %w", explain(err))
	}
	for _, table := range writtenTables {
		if there[table+leftName] {
			return true, nil
		}
	}
	return false, nil
}

// End implements migrate.Stepwise.
func (w wayDown) End(ctx context.Context) error {
	for _, table := range writtenTables {
		for _, suffix := range []string{heldName, leftName} {
			if _, err := w.db.ExecContext(ctx, "DROP TABLE IF EXISTS "+table+suffix); err != nil {
				return explain(err)
			}
		}
	}
	return nil
}

// Resume implements migrate.Stepwise.
func (w wayDown) Resume(ctx context.Context) error {
	begun, err := w.Begun(ctx)
	switch {
	case err != nil:
		return err
	case begun:
		return migrate.ErrHalfDown
	}
	if err := w.rename(ctx, heldName, ""); err != nil {
		return fmt.Errorf("let writers write again after a way down that was stopped: %w", explain(err))
	}
	return nil
}
