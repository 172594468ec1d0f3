package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/store/migrate"
)

// partitioning changes an outbox of our own from one table into partitions, and back.
type partitioning struct {
	there bool // the schema
	files fs.FS
	cfg   *pgx.ConnConfig
}

var _ migrate.Partitions = (*partitioning)(nil)

// Width implements migrate.Partitions.
func (d *partitioning) Width(ctx context.Context) (int64, error) {
	var is layoutFound
	err := d.connected(ctx, func(conn *pgx.Conn) (err error) {
		is, err = findPartitions(ctx, conn)
		return err
	})
	if err != nil || !is.is {
		return 0, err
	}
	return is.width(), nil
}

func (is layoutFound) width() int64 {
	if !is.whole {
		return 0
	}
	return is.parts.width()
}

func (d *partitioning) connected(ctx context.Context, f func(*pgx.Conn) error) error {
	if !d.there {
		return nil
	}
	conn, err := pgx.ConnectConfig(ctx, d.cfg)
	if err != nil {
		return explain(err)
	}
	return errors.Join(explain(f(conn)), conn.Close(context.WithoutCancel(ctx)))
}

const (
	outboxThere = `SELECT to_regclass(format('%I.t_outbox_event', coalesce(current_schema(), ''))) IS NOT NULL`

	alone = `LOCK TABLE t_outbox_event IN ACCESS EXCLUSIVE MODE`

	givenSoFar = `SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('t_outbox_event', 'id')::regclass), 0), coalesce((SELECT max(id) FROM t_outbox_event), 0)`

	searchedBy = `SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = 't_outbox_event'::regclass AND c.relname = ANY($1)`

	// What others have granted goes over to the new table.
	granted = `SELECT format('GRANT %s ON t_outbox_event TO %s%s', a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
 CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a WHERE c.oid = 't_outbox_event'::regclass AND a.grantee <> c.relowner ORDER BY 1`

	ownerOf = `SELECT quote_ident(pg_get_userbyid(relowner)) FROM pg_class WHERE oid = 't_outbox_event'::regclass`

	// What names the table itself would go on with the one that is renamed.
	dependsOn = `SELECT DISTINCT 'view ' || r.ev_class::regclass::text FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
 WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid = 't_outbox_event'::regclass AND r.ev_class <> 't_outbox_event'::regclass
UNION ALL SELECT 'trigger ' || tgname FROM pg_trigger WHERE tgrelid = 't_outbox_event'::regclass AND NOT tgisinternal
UNION ALL SELECT 'foreign key ' || conname FROM pg_constraint WHERE contype = 'f' AND 't_outbox_event'::regclass IN (conrelid, confrelid)
UNION ALL SELECT 'policy ' || polname FROM pg_policy WHERE polrelid = 't_outbox_event'::regclass
UNION ALL SELECT 'publication ' || p.pubname FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE r.prrelid = 't_outbox_event'::regclass
ORDER BY 1`
)

// present is an outbox as it is found.
type present struct {
	layoutFound
	there bool
	// given is up to where the sequence has given ids, highest the highest id.
	given, highest int64
	// searched are the indexes that people search by, grants those of others.
	searched, grants []string
	owner            string
}

func (d *partitioning) look(ctx context.Context, q querying) (p present, err error) {
	if err := q.QueryRow(ctx, outboxThere).Scan(&p.there); err != nil || !p.there {
		p.searched = searchIndexNames() // those of a new one
		return p, err
	}
	if p.layoutFound, err = findPartitions(ctx, q); err != nil {
		return p, err
	}
	if err := q.QueryRow(ctx, givenSoFar).Scan(&p.given, &p.highest); err != nil {
		return p, err
	}
	if err := q.QueryRow(ctx, ownerOf).Scan(&p.owner); err != nil {
		return p, err
	}
	if p.searched, err = texts(ctx, q, searchedBy, searchIndexNames()); err != nil {
		return p, err
	}
	if p.grants, err = texts(ctx, q, granted); err != nil {
		return p, err
	}
	others, err := texts(ctx, q, dependsOn)
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("%s: %w; drop it first, and make it anew on the new t_outbox_event", strings.Join(others, ", "), migrate.ErrNotDivided)
	}
	return p, err
}

func texts(ctx context.Context, q querying, query string, args ...any) ([]string, error) {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Steps implements migrate.Partitions.
func (d *partitioning) Steps(ctx context.Context, ids int64) (steps []string, err error) {
	if !d.there {
		return d.steps(present{searched: searchIndexNames()}, ids)
	}
	err = d.connected(ctx, func(conn *pgx.Conn) error {
		is, err := d.look(ctx, conn)
		if err == nil {
			steps, err = d.steps(is, ids)
		}
		return err
	})
	return steps, err
}

// steps is all of it but the bounds of waiting.
func (d *partitioning) steps(is present, ids int64) ([]string, error) {
	switch {
	case is.is == (ids > 0):
		return nil, nil
	case ids > 0:
		return d.apart(is, ids)
	}
	return d.together(is)
}

// renamed frees the names that the new table gets.
func (is present) renamed(to string) []string {
	steps := []string{
		alone,
		"ALTER TABLE t_outbox_event RENAME TO " + to,
		"ALTER INDEX t_outbox_event_pkey RENAME TO " + to + "_pkey",
		"ALTER SEQUENCE t_outbox_event_id_seq RENAME TO " + to + "_id_seq",
	}
	for _, name := range is.searched {
		steps = append(steps, fmt.Sprintf("ALTER INDEX %s RENAME TO %s_%[1]s", name, to))
	}
	return steps
}

// remade makes the new table, whose ids go on behind those of the old one.
func (is present) remade(old, how string) []string {
	steps := []string{
		"CREATE TABLE t_outbox_event (LIKE " + old + " INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMMENTS)" + how,
		"ALTER TABLE t_outbox_event ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY",
		"SELECT setval(pg_get_serial_sequence('t_outbox_event', 'id'), last_value, is_called) FROM " + old + "_id_seq",
	}
	if is.owner != "" {
		steps = append(steps, "ALTER TABLE t_outbox_event OWNER TO "+is.owner)
	}
	return append(steps, is.grants...)
}

// indexed gives the new table the indexes that the old one has.
func (d *partitioning) indexed(is present) ([]string, error) {
	steps := []string{"ALTER TABLE t_outbox_event ADD CONSTRAINT t_outbox_event_pkey PRIMARY KEY (id)"}
	things, err := wantedThings(d.files)
	for _, w := range things {
		if w.kind == wantIndex && slices.Contains(is.searched, w.name) {
			steps = append(steps, w.sql)
		}
	}
	return steps, err
}

// apart makes the table that is there the lowest partition. That is read once,
// to see that no row is behind its end.
func (d *partitioning) apart(is present, ids int64) ([]string, error) {
	if is.highest > is.given {
		return nil, fmt.Errorf("id %d is there, and the sequence is at %d: %w; SELECT setval(pg_get_serial_sequence('t_outbox_event', 'id'), %[1]d)", is.highest, is.given, migrate.ErrNotDivided)
	}
	all := partitionedAt(is.given, ids)
	lowest := all[0]
	steps := append(is.renamed(lowest.name), "ALTER INDEX u_outbox_event RENAME TO "+lowest.uniqueIndex())
	steps = append(steps, is.remade(lowest.name, " PARTITION BY RANGE (id)")...)
	steps = append(steps, "ALTER TABLE "+lowest.name+" ALTER COLUMN id DROP IDENTITY")
	indexes, err := d.indexed(is)
	if err != nil {
		return nil, err
	}
	steps = append(steps, indexes...)
	for i, p := range all {
		if i > 0 {
			steps = append(steps, p.made()...)
		}
		steps = append(steps, p.attached())
	}
	return steps, nil
}

// together writes all rows into one table. Event ids that stand in several
// partitions are refused.
func (d *partitioning) together(is present) ([]string, error) {
	const old = "t_outbox_event_old"
	steps := append(is.renamed(old), is.remade(old, "")...)
	steps = append(steps, "INSERT INTO t_outbox_event SELECT * FROM "+old, "DROP TABLE "+old)
	indexes, err := d.indexed(is)
	if err != nil {
		return nil, err
	}
	return append(append(steps, indexes...), "CREATE UNIQUE INDEX u_outbox_event ON t_outbox_event (event_id)"), nil
}

// changeBounds is how long a change of the layout waits for whoever uses the table,
// and everybody who comes meanwhile waits with it.
const changeBounds = `SELECT set_config('lock_timeout', '10s', true), set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '10s', true)`

// Change implements migrate.Partitions.
func (d *partitioning) Change(ctx context.Context, ids int64) (did []string, err error) {
	err = d.connected(ctx, func(conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, changeBounds); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, alone); err != nil {
				return err
			}
			is, err := d.look(ctx, tx)
			if err != nil {
				return err
			}
			if did, err = d.wanted(ctx, tx, is, ids); err != nil || len(did) == 0 {
				return err
			}
			_, err = tx.Exec(ctx, strings.Join(did, ";\n"), pgx.QueryExecModeSimpleProtocol)
			return err
		})
	})
	if hasState(err, stateLockTimeout) {
		err = fmt.Errorf("a transaction that has used the outbox has been open for ten seconds (a dump, or one that waits for its client); do it again when it has ended: %w", err)
	}
	return did, err
}

// wanted are the steps, and where the outbox is divided already those that make
// partitions ahead, however large the highest has become.
func (d *partitioning) wanted(ctx context.Context, tx pgx.Tx, is present, ids int64) ([]string, error) {
	if !is.whole || ids == 0 {
		return d.steps(is, ids)
	}
	e, due := is.parts.extended(is.given)
	if !due {
		return nil, nil
	}
	steps, err := extending(ctx, tx, e)
	return append(steps, e.swapped()...), err
}
