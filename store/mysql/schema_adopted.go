package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/settlemq/settle/store/migrate"
)

// What waits in the adopted table stays there for whoever sends it next; but
// what was sent and is not marked there would be sent once more.
const countUnmarked = `SELECT (SELECT count(*) FROM t_outbox_projection p STRAIGHT_JOIN t_outbox_event e ON e.id = p.id), (SELECT count(*) FROM t_consume_retry)
 + (SELECT count(*) FROM t_dead_letter WHERE service_side = 'bridge' AND state IN ('OPEN', 'REPLAYING'))`

// guardAdopted can't keep writers out, as guardUndelivered can't.
func guardAdopted(ctx context.Context, tx *sql.Tx) error {
	if err := nobodyLeads(ctx, tx); err != nil {
		return err
	}
	if err := guardHalves(ctx, tx); err != nil {
		return err
	}
	var unmarked, waiting int64
	if err := tx.QueryRowContext(ctx, countUnmarked).Scan(&unmarked, &waiting); err != nil {
		return fmt.Errorf("count what is not delivered: %w", explain(err))
	}
	if unmarked+waiting > 0 {
		return fmt.Errorf("the status of %d rows is not written yet and %d events wait to take effect: %w", unmarked, waiting, migrate.ErrUndelivered)
	}
	return nil
}

// passedRows are rows of an adopted table that people have discarded or had the
// relay pass, and whose status says that they wait: it is the owner's word, and
// only the tables that a way down drops tell otherwise. They are not marked in
// passing: the owner's program may do something with what is dead, or may know no
// word for it, so a person runs the SQL, or decides against it.
type passedRows struct {
	adoption *adoption
	// database is that of Settle's own tables.
	database string
}

const passedWhere = `status IN (%s) AND event_id IN (SELECT event_id FROM %s.t_dead_letter WHERE consumer_group = '' AND state = 'DISCARDED' UNION SELECT event_id FROM %[2]s.settle_skip)`

// where is the condition that tells them.
func (p passedRows) where() string {
	return fmt.Sprintf(passedWhere, p.adoption.words(migrate.StatusPending, migrate.StatusRetry), quoted(p.database))
}

// mark is the SQL that marks them: as dead where the table has a word for that,
// else as sent.
func (p passedRows) mark() string {
	kind := migrate.StatusSent
	if len(p.adoption.Status[migrate.StatusDead]) > 0 {
		kind = migrate.StatusDead
	}
	return fmt.Sprintf("UPDATE %s SET status = %s WHERE %s", p.adoption.plainName(), p.adoption.wordLiteral(p.adoption.Status[kind][0]), p.where())
}

func (p passedRows) count(ctx context.Context, db querier) (n int64, err error) {
	if !p.adoption.sweepable() {
		return 0, nil // its status says nothing
	}
	if err = db.QueryRowContext(ctx, "SELECT count(*) FROM "+p.adoption.table()+" WHERE "+p.where()).Scan(&n); err != nil {
		err = fmt.Errorf("count rows that were discarded or passed: %w", explain(err))
	}
	return n, err
}

// guard refuses while there are any.
func (p passedRows) guard(ctx context.Context, tx *sql.Tx) error {
	if err := guardAdopted(ctx, tx); err != nil {
		return err
	}
	n, err := p.count(ctx, tx)
	if err != nil || n == 0 {
		return err
	}
	return fmt.Errorf("%d rows were discarded or passed and wait in %s; mark them: %s: %w", n, p.adoption.plainName(), p.mark(), migrate.ErrWouldBeSent)
}

// before is what a plan of the way down says of them.
func (p passedRows) before(ctx context.Context, db *sql.DB) (string, error) {
	n, err := p.count(ctx, db)
	if err != nil || n == 0 {
		return "", err
	}
	return fmt.Sprintf("-- %d rows were discarded or passed and wait in %s: whoever reads the table next would send them\n%s;\n\n", n, p.adoption.plainName(), p.mark()), nil
}

// ofAdopted completes what is known of a database's migrations if it reads a
// table of another owner.
func (s server) ofAdopted(ctx context.Context, db *sql.DB, database string, source *migrate.Source) error {
	var adopted bool
	if err := db.QueryRowContext(ctx, hasAdoption).Scan(&adopted); err != nil || !adopted {
		return err
	}
	source.Guard = guardAdopted
	decided, _, err := s.readAdoption(ctx, db)
	if err == nil && decided != nil {
		passed := passedRows{decided, database}
		source.Guard, source.Before = passed.guard, passed.before
	}
	source.Stepwise = wayDown{db, source.Guard}
	return err
}
