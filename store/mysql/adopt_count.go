package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/outboxlog"
)

const (
	idSource  = `SELECT extra FROM information_schema.columns WHERE table_schema = ? AND table_name = ? AND column_name = 'id'`
	newestIDs = `SELECT id FROM %s FORCE INDEX (PRIMARY) ORDER BY id DESC LIMIT 5000`
	idIndex   = `SELECT count(*) > 0 FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? AND index_name = 'PRIMARY' AND seq_in_index = 1 AND column_name = 'id'`
)

// ids looks at where ids come from: the order per key rests on it.
func (a *Adopt) ids(ctx context.Context, l *adoptLook) error {
	d := l.adoption
	var indexed bool
	if err := l.db.QueryRowContext(ctx, idIndex, d.Schema, d.Name).Scan(&indexed); err != nil {
		return err
	}
	if !indexed {
		l.Refuse("the primary key of %s does not begin with its id: rows could not be read in the order of their ids", l.Plan.Table)
		return nil
	}
	var extra string
	if err := l.db.QueryRowContext(ctx, idSource, d.Schema, d.Name).Scan(&extra); err != nil {
		return err
	}
	source := "given by the application"
	if strings.Contains(strings.ToLower(extra), "auto_increment") {
		source = "AUTO_INCREMENT"
	}
	var newest []int64
	var id int64
	if err := each(ctx, l.db, []any{&id}, func() { newest = append(newest, id) }, fmt.Sprintf(newestIDs, d.table())); err != nil {
		return err
	}
	slices.Reverse(newest)
	l.IDs(source, newest, outboxlog.BlockSize(newest, 1, 1))
	return nil
}

const (
	countWaiting = `SELECT count(*), coalesce(sum(w.due > UTC_TIMESTAMP(6) + INTERVAL 10 SECOND), 0) FROM (SELECT %s AS due FROM %s e WHERE e.status IN (%s) LIMIT %d) w`

	// A relay of another kind locks what it takes, or marks it.
	relaysOf = `SELECT id, user, info FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND info LIKE ? AND (info LIKE '%skip%locked%' OR info LIKE 'update%') ORDER BY id LIMIT 5`
)

func (a *Adopt) count(ctx context.Context, l *adoptLook) error {
	d := l.adoption
	due := d.zoned("next_retry_time")
	var late int64
	pending := fmt.Sprintf(countWaiting, due, d.table(), d.words(migrate.StatusPending), migrate.CountLimit)
	if err := l.db.QueryRowContext(ctx, pending).Scan(&l.Plan.Send, &l.Plan.Delayed); err != nil {
		return err
	}
	retry := fmt.Sprintf(countWaiting, due, d.table(), d.words(migrate.StatusRetry), migrate.CountLimit)
	if err := l.db.QueryRowContext(ctx, retry).Scan(&l.Plan.Retry, &late); err != nil {
		return err
	}
	l.Plan.Send += l.Plan.Retry
	l.Leave()
	return nil
}

// others looks who else works on the table now, among those whose statements the
// account may see.
func (a *Adopt) others(ctx context.Context, l *adoptLook) error {
	var id int64
	var user, statement string
	return each(ctx, l.db, []any{&id, &user, &statement}, func() {
		l.Note("connection %d of %s may be a relay that works on the table: stop it before Settle's begins, or both send", id, user)
	}, relaysOf, "%"+l.adoption.Name+"%")
}
