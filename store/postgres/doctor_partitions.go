package postgres

import (
	"context"
	"fmt"

	"github.com/settlemq/settle/doctor"
)

// partitions looks whether the relay can keep the partitions of the outbox. No
// event is lost where it can't: every id has its place.
func (x *examination) partitions(ctx context.Context) (doctor.Diagnosis, error) {
	switch {
	case !x.partitioned.is:
		return doctor.Sound("the outbox is one table"), nil
	case !x.partitioned.whole:
		return doctor.Diagnose(doctor.Warn, "t_outbox_event has partitions that settle migrate has not made: none is dropped, and rows are deleted one by one",
				"detach those that were attached by hand, or settle migrate --partitioned=false, which makes one table of all"),
			nil
	}
	var may bool
	if err := x.conn.QueryRow(ctx, mayPartition).Scan(&may); err != nil {
		return doctor.Diagnosis{}, err
	}
	if !may {
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("%s is not the owner of t_outbox_event, or may create nothing in its schema: no partition is made or dropped, and rows are deleted one by one", x.role),
				"let the relay connect as the owner; or settle migrate --partitioned=false"),
			nil
	}
	var read, given int64
	if err := x.conn.QueryRow(ctx, readBy).Scan(&read, &given); err != nil {
		return doctor.Diagnosis{}, err
	}
	all := x.partitioned.parts
	ahead := all.ahead(given)
	found := fmt.Sprintf("%d partitions of %d ids each, and %d ahead of id %d", len(all)-2-ahead, all.width(), ahead, given)
	if ahead == 0 {
		return doctor.Diagnose(doctor.Warn, found+": new rows go to the last one, of which no part is dropped",
				"let a relay lead, it makes others; where the last one has become large, settle migrate --partitioned does, and reads it once while everybody waits"),
			nil
	}
	return doctor.Sound("%s", found), nil
}

const withoutUnique = `SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass('t_outbox_event')
AND NOT EXISTS (SELECT FROM pg_index x WHERE x.indrelid = c.oid AND x.indisunique AND x.indisvalid AND x.indpred IS NULL AND x.indnkeyatts = 1
 AND x.indkey[0] = (SELECT attnum FROM pg_attribute WHERE attrelid = c.oid AND attname = 'event_id')) ORDER BY 1`

// partitionIndexes: each partition has its own index of event ids.
func (x *examination) partitionIndexes(ctx context.Context, p *problems) error {
	var name string
	return x.each(ctx, []any{&name}, func() {
		p.add(name+" has no unique index on event_id", fmt.Sprintf("CREATE UNIQUE INDEX CONCURRENTLY ON %s (event_id)", ident(name)))
	}, withoutUnique)
}
