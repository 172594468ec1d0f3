package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
)

const (
	// A partition that is being detached is no longer one for those who insert.
	readOutboxPartitions = `SELECT c.relname::text, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = to_regclass(format('%I.t_outbox_event', coalesce(current_schema(), ''))) AND NOT i.inhdetachpending`

	isPartitioned = `SELECT coalesce((SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass(format('%I.t_outbox_event', coalesce(current_schema(), '')))), false)`
)

// layoutFound is how an outbox is divided. Partitions that are not as this program
// makes them are left alone.
type layoutFound struct {
	is    bool
	parts partitions
	whole bool
}

// querying is what reads the catalog: a connection, or a transaction.
type querying interface {
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

func findPartitions(ctx context.Context, q querying) (d layoutFound, err error) {
	for range 10 {
		d = layoutFound{}
		if err := q.QueryRow(ctx, isPartitioned).Scan(&d.is); err != nil || !d.is {
			return d, err
		}
		if torn, err := d.read(ctx, q); err != nil || !torn {
			return d, err
		}
	}
	return d, nil
}

// read reads the partitions. It is torn when one of them went meanwhile: the
// range is asked of the newest catalog.
func (d *layoutFound) read(ctx context.Context, q querying) (torn bool, err error) {
	rows, err := q.Query(ctx, readOutboxPartitions)
	if err != nil {
		return false, err
	}
	known := true
	var name string
	var bound *string
	_, err = pgx.ForEachRow(rows, []any{&name, &bound}, func() error {
		if torn = torn || bound == nil; torn {
			return nil
		}
		p, ok := partitionOf(name, *bound)
		known = known && ok
		d.parts = append(d.parts, p)
		return nil
	})
	d.whole = known && !torn && d.parts.whole()
	return torn, err
}

// lookWhetherPartitioned takes note of the layout: others may change it.
func (s *Store) lookWhetherPartitioned(ctx context.Context, q querying) error {
	var is bool
	err := q.QueryRow(ctx, isPartitioned).Scan(&is)
	if err == nil {
		s.partitioned.Store(is)
	}
	return err
}

// made is the SQL that makes a table which can become a partition: with the
// indexes of the others, and with that of its own event ids, which can't be of
// all partitions together.
func (p partition) made() []string {
	return []string{
		"CREATE TABLE " + p.name + " (LIKE t_outbox_event INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING INDEXES)",
		"CREATE UNIQUE INDEX " + p.uniqueIndex() + " ON " + p.name + " (event_id)",
	}
}

func (p partition) uniqueIndex() string { return p.name + "_event" }

func (p partition) attached() string {
	from, until := "MINVALUE", "MAXVALUE"
	if !p.lowest() {
		from = strconv.FormatInt(p.from, 10)
	}
	if !p.highest() {
		until = strconv.FormatInt(p.until, 10)
	}
	return fmt.Sprintf("ALTER TABLE t_outbox_event ATTACH PARTITION %s FOR VALUES FROM (%s) TO (%s)", p.name, from, until)
}

func (p partition) detached() string { return "ALTER TABLE t_outbox_event DETACH PARTITION " + p.name }

func (p partition) renamed(to partition) []string {
	return []string{
		"ALTER TABLE " + p.name + " RENAME TO " + to.name,
		"ALTER INDEX IF EXISTS " + p.uniqueIndex() + " RENAME TO " + to.uniqueIndex(),
	}
}

// strays moves rows of the highest partition that stand behind the end which it
// gets: a program has chosen their ids itself.
func (e extension) strays() (steps []string) {
	for _, p := range e.added {
		steps = append(steps, fmt.Sprintf("INSERT INTO %s SELECT * FROM ONLY %s WHERE id >= %d AND id < %d", p.name, e.was.name, p.from, p.until))
	}
	return append(steps, fmt.Sprintf("DELETE FROM ONLY %s WHERE id >= %d", e.was.name, e.sealed.until))
}

// prepared makes what can be made while everybody goes on.
func (e extension) prepared() (steps []string) {
	for _, p := range e.added {
		steps = append(steps, p.made()...)
	}
	return steps
}

// swapped is done while nobody uses the outbox.
func (e extension) swapped() (steps []string) {
	steps = append(steps, e.was.detached())
	steps = append(steps, e.was.renamed(e.sealed)...)
	steps = append(steps, e.sealed.attached())
	for _, p := range e.added {
		steps = append(steps, p.attached())
	}
	return steps
}
