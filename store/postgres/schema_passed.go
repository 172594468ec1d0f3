package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/store/migrate"
)

// passedRows are rows of an adopted table that people have discarded or had the
// relay pass, and whose status says that they wait: it is the owner's word, and
// only the tables that a way down drops tell otherwise. They are not marked in
// passing: the owner's program may do something with what is dead, or may know no
// word for it, so a person runs the SQL, or decides against it.
type passedRows struct {
	adoption *adoption
	// schema is that of Settle's own tables.
	schema string
}

// where is the condition that tells them.
func (p passedRows) where() string {
	own := pgx.Identifier{p.schema}.Sanitize()
	return fmt.Sprintf(`status IN (%s) AND event_id::text IN (SELECT event_id FROM %s.t_dead_letter WHERE consumer_group = '' AND state = 'DISCARDED' UNION SELECT event_id FROM %[2]s.settle_skip)`,
		p.adoption.words(migrate.StatusPending, migrate.StatusRetry), own)
}

// mark is the SQL that marks them: as dead where the table has a word for that,
// else as sent.
func (p passedRows) mark() string {
	kind := migrate.StatusSent
	if len(p.adoption.Status[migrate.StatusDead]) > 0 {
		kind = migrate.StatusDead
	}
	return fmt.Sprintf("UPDATE %s SET status = %s WHERE %s", p.adoption.plainName(), literal(p.adoption.Status[kind][0]), p.where())
}

func (p passedRows) count(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (n int64, err error) {
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
