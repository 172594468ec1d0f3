package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/store/migrate"
)

// searchIndexes are those of our own outbox that only people search by. What is
// there tells the layout, so nothing else can say otherwise.
type searchIndexes struct {
	db    *sql.DB // nil for a schema that is not there
	files fs.FS
	cfg   *pgx.ConnConfig
}

var _ migrate.Layouts = (*searchIndexes)(nil)

func searchIndexNames() []string {
	return []string{"i_outbox_aggregate", "i_outbox_biz", "i_outbox_trace"}
}

const (
	readSearchIndexes = `SELECT c.relname::text, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass(format('%I.t_outbox_event', current_schema()))`

	countSearchIndexes = `SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = settle_outbox_table() AND i.indisvalid AND c.relname = ANY($1)`
)

// present returns the indexes of the outbox and whether each is complete; none
// where there is no outbox, which has those of its keys at least.
func (l *searchIndexes) present(ctx context.Context) (map[string]bool, error) {
	valid := map[string]bool{}
	if l.db == nil {
		return valid, nil
	}
	rows, err := l.db.QueryContext(ctx, readSearchIndexes)
	if err != nil {
		return nil, explain(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		var ok bool
		if err := rows.Scan(&name, &ok); err != nil {
			return nil, explain(err)
		}
		valid[name] = ok
	}
	return valid, explain(rows.Err())
}

// Layout implements migrate.Layouts.
func (l *searchIndexes) Layout(ctx context.Context) (migrate.Layout, error) {
	valid, err := l.present(ctx)
	if err != nil || len(valid) == 0 {
		return "", err
	}
	var there, whole int
	for _, name := range searchIndexNames() {
		if ok, is := valid[name]; is {
			there++
			if ok {
				whole++
			}
		}
	}
	switch {
	case there == 0:
		return migrate.LayoutLean, nil
	case whole == len(searchIndexNames()):
		return migrate.LayoutFull, nil
	}
	return migrate.LayoutPartial, nil
}

// Steps implements migrate.Layouts. A table that is not there yet is made with
// the indexes, and nobody uses it while they are dropped.
func (l *searchIndexes) Steps(ctx context.Context, to migrate.Layout) (steps []string, err error) {
	valid, err := l.present(ctx)
	if err != nil {
		return nil, err
	}
	if len(valid) == 0 {
		if to == migrate.LayoutLean {
			steps = append(steps, "DROP INDEX "+strings.Join(searchIndexNames(), ", "))
		}
		return steps, nil
	}
	things, err := wantedThings(l.files)
	if err != nil {
		return nil, err
	}
	parts, err := l.partitions(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range things {
		if w.kind != wantIndex || !slices.Contains(searchIndexNames(), w.name) {
			continue
		}
		ok, there := valid[w.name]
		if len(parts) > 0 {
			steps = append(steps, ofPartitions(w, parts, to, there, ok)...)
			continue
		}
		// One that is not complete was left by a build that was stopped.
		if there && (to == migrate.LayoutLean || !ok) {
			steps = append(steps, "DROP INDEX CONCURRENTLY "+w.name)
		}
		if to == migrate.LayoutFull && !(there && ok) {
			steps = append(steps, strings.Replace(w.sql, "CREATE INDEX ", "CREATE INDEX CONCURRENTLY ", 1))
		}
	}
	return steps, nil
}

func (l *searchIndexes) partitions(ctx context.Context) (names []string, err error) {
	rows, err := l.db.QueryContext(ctx, readOutboxPartitions)
	if err != nil {
		return nil, explain(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name, new(sql.NullString)); err != nil {
			return nil, explain(err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, explain(rows.Err())
}

// ofPartitions is an index of all partitions: it is whole when each of them has
// its own. The server knows no CONCURRENTLY for the whole, only for each; what
// is left waits for whoever has used the table, and not for long.
func ofPartitions(w wanted, parts []string, to migrate.Layout, there, ok bool) (steps []string) {
	soon := func(sql string) string { return "SET lock_timeout = '5s'; " + sql + "; RESET lock_timeout" }
	if there && (to == migrate.LayoutLean || !ok) {
		steps = append(steps, soon("DROP INDEX "+w.name))
	}
	if to != migrate.LayoutFull || there && ok {
		return steps
	}
	steps = append(steps, soon(strings.Replace(w.sql, " ON t_outbox_event ", " ON ONLY t_outbox_event ", 1)))
	for _, p := range parts {
		own := p + "_" + w.name
		sql := strings.Replace(w.sql, "CREATE INDEX "+w.name+" ON t_outbox_event ", "CREATE INDEX CONCURRENTLY "+own+" ON "+p+" ", 1)
		steps = append(steps, "DROP INDEX CONCURRENTLY IF EXISTS "+own, sql, "ALTER INDEX "+w.name+" ATTACH PARTITION "+own)
	}
	return steps
}

// The lock of migrations would not do: who waits for it is in the middle of a
// statement, the build of an index waits for such to end, and the server sees no
// deadlock in it. So nobody waits.
const layoutAlone = `SELECT set_config('idle_in_transaction_session_timeout', '0', true), pg_try_advisory_xact_lock(hashtext('settle.layout'), hashtext(current_schema()))`

var errLayoutBusy = errors.New("another process changes the layout now; look again when it has ended")

// Change implements migrate.Layouts.
//
// Crash here: an index that was being made is left incomplete, and costs inserts
// but serves nobody until the change is done again.
func (l *searchIndexes) Change(ctx context.Context, to migrate.Layout) (did []string, err error) {
	unlock, err := l.alone(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	steps, err := l.Steps(ctx, to)
	if err != nil {
		return nil, err
	}
	for _, step := range steps {
		if _, err := l.db.ExecContext(ctx, step); err != nil {
			return did, fmt.Errorf("%s: %w", step, explain(err))
		}
		did = append(did, step)
	}
	return did, nil
}

// alone keeps others from changing the layout at the same time. Its transaction
// keeps no snapshot, which the build of an index would wait for: it is read
// committed, and the simple protocol leaves no portal open.
func (l *searchIndexes) alone(ctx context.Context) (unlock func() error, err error) {
	conn, err := pgx.ConnectConfig(ctx, l.cfg)
	if err != nil {
		return nil, explain(err)
	}
	unlock = func() error { return conn.Close(context.WithoutCancel(ctx)) }
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	var unbounded string
	var got bool
	if err == nil {
		err = tx.QueryRow(ctx, layoutAlone, pgx.QueryExecModeSimpleProtocol).Scan(&unbounded, &got)
	}
	if err == nil && !got {
		err = errLayoutBusy
	}
	if err != nil {
		return nil, errors.Join(explain(err), unlock())
	}
	return unlock, nil
}
