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
	outboxSequence = `SELECT table_name FROM information_schema.tables WHERE table_schema = ? AND table_type = 'SEQUENCE'
 AND table_name IN (CONCAT(?, '_seq'), CONCAT(?, '_id_seq'), 'outbox_event_seq', 'hibernate_sequence') ORDER BY table_name = 'hibernate_sequence', table_name LIMIT 1`
	sequenceStep = `SELECT increment, start_value FROM %s`
)

// pooledIDs looks at the newest ids: whoever takes them in blocks leaves jumps
// to the same place of a block. A server that steps (auto_increment_increment)
// makes each id a jump.
func (x *examination) pooledIDs(ctx context.Context) (doctor.Diagnosis, error) {
	var extra string
	var next uint64
	database, table, named := x.outboxAt()
	err := x.db.QueryRowContext(ctx, outboxCounter, database, table).Scan(&extra, &next)
	if errors.Is(err, sql.ErrNoRows) {
		return doctor.Sound("there is no %s whose rows have numbers", named), nil
	}
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	var ids []int64
	var id int64
	if err := each(ctx, x.db, []any{&id}, func() { ids = append(ids, id) }, recentIDs); err != nil {
		return doctor.Diagnosis{}, err
	}
	slices.Reverse(ids)
	sequence, step, start, err := x.sequence(ctx)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	block := outboxlog.BlockSize(ids, step, start)
	if block <= 1 {
		return doctor.Sound("none seen in %d ids", len(ids)), nil
	}
	fix := "GenerationType.IDENTITY, or allocationSize = 1 in @SequenceGenerator or @TableGenerator"
	if step > 1 {
		fix += fmt.Sprintf("; then ALTER SEQUENCE %s INCREMENT 1", sequence)
	}
	return doctor.Diagnose(doctor.Bad, fmt.Sprintf("ids of %s are taken in blocks of %d", named, block), fix), nil
}

// sequence is where an application may take the outbox's ids from; step is 1
// where there is none.
func (x *examination) sequence(ctx context.Context) (name string, step, start int64, err error) {
	database, table, _ := x.outboxAt()
	err = x.db.QueryRowContext(ctx, outboxSequence, database, table, table).Scan(&name)
	if errors.Is(err, sql.ErrNoRows) {
		return "", 1, 1, nil
	}
	if err == nil {
		err = x.db.QueryRowContext(ctx, fmt.Sprintf(sequenceStep, quoted(database)+"."+quoted(name))).Scan(&step, &start)
	}
	return name, step, start, err
}
