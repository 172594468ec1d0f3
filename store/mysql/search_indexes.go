package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/settlemq/settle/store/migrate"
)

// searchIndexes are those of our own outbox that only people search by. What is
// there tells the layout, so nothing else can say otherwise.
type searchIndexes struct {
	db    *sql.DB // nil for a database that is not there
	files fs.FS
}

var _ migrate.Layouts = (*searchIndexes)(nil)

func searchIndexNames() []string {
	return []string{"i_outbox_aggregate", "i_outbox_biz", "i_outbox_trace"}
}

const outboxIndexes = `SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 't_outbox_event'`

// present returns the indexes of the outbox; none where there is no outbox,
// which has those of its keys at least.
func present(ctx context.Context, db querier) (names []string, err error) {
	var name string
	err = each(ctx, db, []any{&name}, func() { names = append(names, name) }, outboxIndexes)
	return names, explain(err)
}

func (l *searchIndexes) present(ctx context.Context) ([]string, error) {
	if l.db == nil {
		return nil, nil
	}
	return present(ctx, l.db)
}

// searched is how many of the search indexes are among names.
func searched(names []string) (n int) {
	for _, name := range searchIndexNames() {
		if slices.Contains(names, name) {
			n++
		}
	}
	return n
}

// Layout implements migrate.Layouts.
func (l *searchIndexes) Layout(ctx context.Context) (migrate.Layout, error) {
	names, err := l.present(ctx)
	switch n := searched(names); {
	case err != nil || len(names) == 0:
		return "", err
	case n == 0:
		return migrate.LayoutLean, nil
	case n < len(searchIndexNames()):
		return migrate.LayoutPartial, nil
	}
	return migrate.LayoutFull, nil
}

// Steps implements migrate.Layouts: one statement, which is done wholly or not.
// A table that is not there yet is made with the indexes.
func (l *searchIndexes) Steps(ctx context.Context, to migrate.Layout) ([]string, error) {
	names, err := l.present(ctx)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = searchIndexNames()
	}
	things, err := wantedThings(l.files)
	if err != nil {
		return nil, err
	}
	const alter = "ALTER TABLE t_outbox_event "
	var changes []string
	for _, w := range things {
		if w.kind != wantIndex || !slices.Contains(searchIndexNames(), w.name) {
			continue
		}
		switch there := slices.Contains(names, w.name); {
		case there && to == migrate.LayoutLean:
			changes = append(changes, "DROP INDEX "+w.name)
		case !there && to == migrate.LayoutFull:
			changes = append(changes, strings.TrimPrefix(w.sql, alter))
		}
	}
	if len(changes) == 0 {
		return nil, nil
	}
	return []string{alter + strings.Join(changes, ", ") + ", ALGORITHM = INPLACE, LOCK = NONE"}, nil
}

// The change waits for transactions that have used the table, and who comes
// meanwhile waits behind it. So it gives way after a second, and comes again.
const (
	giveWay    = `SET SESSION lock_wait_timeout = 1`
	comesAgain = 2 * time.Second
)

// Change implements migrate.Layouts.
//
// Crash here: the server undoes what it has begun.
func (l *searchIndexes) Change(ctx context.Context, to migrate.Layout) (did []string, err error) {
	unlock, err := lockMigrations(ctx, l.db)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	steps, err := l.Steps(ctx, to)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, giveWay); err != nil {
		return nil, explain(err)
	}
	for _, step := range steps {
		if err := insist(ctx, conn, step); err != nil {
			return did, fmt.Errorf("%s: %w", step, explain(err))
		}
		did = append(did, step)
	}
	return did, nil
}

// insist runs a statement until nobody is in its way.
func insist(ctx context.Context, conn *sql.Conn, statement string) error {
	for {
		_, err := conn.ExecContext(ctx, statement)
		if !hasCode(err, codeLockWait) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(comesAgain):
		}
	}
}
