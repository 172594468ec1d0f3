package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/outboxlog"
)

const (
	recentIDs = `SELECT id FROM t_outbox_event ORDER BY id DESC LIMIT 5000`

	// MariaDB's sequences, from which Hibernate takes ids by itself.
	outboxSequence = `SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_type = 'SEQUENCE'
 AND table_name IN ('t_outbox_event_seq', 't_outbox_event_id_seq', 'outbox_event_seq', 'hibernate_sequence') ORDER BY table_name = 'hibernate_sequence', table_name LIMIT 1`
	sequenceStep = `SELECT increment, start_value FROM %s`
)

// pooledIDs looks at the newest ids: whoever takes them in blocks leaves jumps
// to the same place of a block. A server that steps (auto_increment_increment)
// makes each id a jump.
func (x *examination) pooledIDs(ctx context.Context) (diagnosis, error) {
	var extra string
	var next uint64
	err := x.db.QueryRowContext(ctx, outboxCounter).Scan(&extra, &next)
	if errors.Is(err, sql.ErrNoRows) {
		return sound("there is no t_outbox_event whose rows have numbers"), nil
	}
	if err != nil {
		return diagnosis{}, err
	}
	var ids []int64
	var id int64
	if err := each(ctx, x.db, []any{&id}, func() { ids = append(ids, id) }, recentIDs); err != nil {
		return diagnosis{}, err
	}
	slices.Reverse(ids)
	sequence, step, start, err := x.sequence(ctx)
	if err != nil {
		return diagnosis{}, err
	}
	block := outboxlog.BlockSize(ids, step, start)
	if block <= 1 {
		return sound("none seen in %d ids", len(ids)), nil
	}
	fix := "GenerationType.IDENTITY, or allocationSize = 1 in @SequenceGenerator or @TableGenerator"
	if step > 1 {
		fix += fmt.Sprintf("; then ALTER SEQUENCE %s INCREMENT 1", sequence)
	}
	return diagnosis{doctor.Bad, fmt.Sprintf("ids of t_outbox_event are taken in blocks of %d", block), fix}, nil
}

// sequence is where an application may take the outbox's ids from; step is 1
// where there is none.
func (x *examination) sequence(ctx context.Context) (name string, step, start int64, err error) {
	err = x.db.QueryRowContext(ctx, outboxSequence).Scan(&name)
	if errors.Is(err, sql.ErrNoRows) {
		return "", 1, 1, nil
	}
	if err == nil {
		err = x.db.QueryRowContext(ctx, fmt.Sprintf(sequenceStep, quoted(name))).Scan(&step, &start)
	}
	return name, step, start, err
}
