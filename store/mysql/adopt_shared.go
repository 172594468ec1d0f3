package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/settlemq/settle/store/adopt"
	"github.com/settlemq/settle/store/migrate"
)

const classicLog = "t_message_consume_log"

const (
	// Of columns that must have a value we give only those that we know.
	sharedColumns = `SELECT column_name, column_type, coalesce(character_maximum_length, 0), coalesce(character_set_name, ''), coalesce(collation_name, ''),
 is_nullable = 'NO' AND column_default IS NULL AND extra NOT LIKE '%auto_increment%' AND extra NOT LIKE '%generated%'
FROM information_schema.columns WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position`

	// An index of a part of a text takes two for one.
	sharedUnique = `SELECT count(*) > 0 FROM (SELECT index_name FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? AND non_unique = 0
 GROUP BY index_name HAVING count(*) = 2 AND sum(column_name IN ('consumer_group', 'message_id')) = 2 AND sum(sub_part IS NOT NULL) = 0) u`

	// The newest rows show which words are in use.
	newestWords = `SELECT CAST(status AS CHAR), count(*) FROM (SELECT status FROM %s ORDER BY id DESC LIMIT 100000) n GROUP BY 1 ORDER BY 1`
	someWords   = `SELECT CAST(status AS CHAR), count(*) FROM (SELECT status FROM %s LIMIT 100000) n GROUP BY 1 ORDER BY 1`

	hasColumnID = `SELECT count(*) > 0 FROM information_schema.columns WHERE table_schema = ? AND table_name = ? AND column_name = 'id'`

	putSharedLog = `INSERT INTO settle_shared_log (one, decided) VALUES (1, ?) ON DUPLICATE KEY UPDATE decided = VALUES(decided)`
)

// consumeLog looks for a consume log that foreign consumers write to. One that
// nobody has named and that can't be shared is a note.
func (a *Adopt) consumeLog(ctx context.Context, l *adoptLook) error {
	var before *sharedLog
	var err error
	if l.there {
		if before, err = l.is.loadSharedLog(ctx, l.db); err != nil {
			return err
		}
	}
	name := a.cfg.ConsumeLog
	if name == "" && before != nil {
		name = before.table()
	}
	named := name != ""
	parts, ok := parseName(cmp.Or(name, classicLog))
	if ok && len(parts) == 1 {
		parts = []string{l.service, parts[0]}
	}
	if !named && l.service == "" {
		return nil
	}
	d := l.is.newSharedLog()
	found, engine := false, ""
	if ok && parts[0] != "" {
		if found, engine, err = d.find(ctx, l.db, parts); err != nil {
			return err
		}
	}
	if !found {
		if named {
			l.Refuse("there is no consume log %s, or the account has no right to it; name it with its database: --consume-log sales.t_message_consume_log", name)
		}
		return nil
	}
	reasons, err := a.shape(ctx, l, d, before)
	if engine != "InnoDB" {
		reasons = append(reasons, fmt.Sprintf("%s is kept by %s, whose rows are stored whether or not a transaction commits: ALTER TABLE %[1]s ENGINE = InnoDB", d.plainName(), engine))
	}
	if err != nil || !l.Share(&d.ConsumeLog, d.plainName(), named, reasons) {
		return err
	}
	l.shared = d
	return a.outboxBeside(ctx, l)
}

const findBeside = `SELECT count(*) > 0 FROM information_schema.tables WHERE table_schema = ? AND table_name = 't_outbox_event'`

// outboxBeside finds whether there is an outbox to be adopted, too.
func (a *Adopt) outboxBeside(ctx context.Context, l *adoptLook) error {
	if a.cfg.Table != "" || l.before != nil {
		return nil
	}
	var there bool
	err := l.db.QueryRowContext(ctx, findBeside, l.service).Scan(&there)
	if l.alone = !there || l.outbox; l.alone {
		l.Plan.Zone = l.shared.Zone
		l.Note("there is no outbox to adopt: events that producers append are in an outbox of Settle's own in database %s", plain(l.own))
	}
	return err
}

func (s *sharedLog) find(ctx context.Context, db querier, parts []string) (found bool, engine string, err error) {
	var kind string
	err = db.QueryRowContext(ctx, findTable, parts[0], parts[1]).Scan(&s.Schema, &s.Name, &kind, &engine)
	if errors.Is(err, sql.ErrNoRows) {
		return false, "", nil
	}
	return err == nil && kind == "BASE TABLE", engine, err
}

// shape reads what the table is like, and returns what is in the way.
func (a *Adopt) shape(ctx context.Context, l *adoptLook, d, before *sharedLog) (reasons []string, err error) {
	reasons, merging, err := d.columns(ctx, l.db)
	if err != nil || !d.Classic() {
		return append(reasons, fmt.Sprintf("%s is no classic consume log: it needs the columns %s", d.plainName(), strings.Join(adopt.ConsumeEssentials(), ", "))), err
	}
	if base := baseType(d.Columns["consumed_at"]); base != "datetime" && base != "timestamp" {
		reasons = append(reasons, fmt.Sprintf("column consumed_at of %s is %s, not a timestamp", d.plainName(), d.Columns["consumed_at"]))
	}
	more, err := d.usable(ctx, l.db)
	if reasons = append(reasons, more...); err != nil || len(reasons) > 0 {
		return reasons, err
	}
	if merging != "" {
		l.Note("%s of %s compares by %s, to which ids are one that differ in case, accents or trailing space: foreign consumers pass the second of them over; consumers of Settle do not", "message_id", d.plainName(), merging)
	}
	want := cmp.Or(a.cfg.Zone, zoneBefore(before, l.before))
	if d.Zone, err = a.zoneOf(ctx, l, want); err != nil {
		return nil, err
	}
	return a.sharedStatuses(ctx, l, d, before)
}

func zoneBefore(log *sharedLog, outbox *adoption) (zone string) {
	if log != nil {
		zone = log.Zone
	}
	if outbox != nil {
		zone = cmp.Or(zone, outbox.Zone)
	}
	return zone
}

// columns returns what is in the way, and the collation of the ids unless that
// compares byte by byte.
func (s *sharedLog) columns(ctx context.Context, db querier) (reasons []string, merging string, err error) {
	var name, typed, charset, collation string
	var limit int
	var needed bool
	err = each(ctx, db, []any{&name, &typed, &limit, &charset, &collation, &needed}, func() {
		name = strings.ToLower(name)
		if reason := s.Column(name, typed, limit, needed, s.plainName()); reason != "" {
			reasons = append(reasons, reason)
		}
		if s.Columns[name] != "" && charset != "" {
			s.Charsets[name] = charset
		}
		if name == "message_id" && !strings.HasSuffix(collation, "nopad_bin") && !strings.HasSuffix(collation, "0900_bin") {
			merging = collation
		}
	}, sharedColumns, s.Schema, s.Name)
	return reasons, merging, err
}

const (
	mayReadLog   = `SELECT consumer_group, message_id, status, consumed_at FROM %s LIMIT 0`
	mayInsertLog = `EXPLAIN INSERT INTO %s (consumer_group, message_id, status, consumed_at) VALUES ('', '', NULL, NULL)`
	mayUpdateLog = `EXPLAIN UPDATE %s SET status = status, consumed_at = consumed_at WHERE consumer_group = '' AND message_id = ''`
	mayDeleteLog = `EXPLAIN DELETE FROM %s WHERE consumer_group = '' AND message_id = ''`
)

// usable looks at the rights on the table and at what makes a row unique.
func (s *sharedLog) usable(ctx context.Context, db *sql.DB) (reasons []string, err error) {
	var unique bool
	if err := db.QueryRowContext(ctx, sharedUnique, s.Schema, s.Name).Scan(&unique); err != nil {
		return nil, err
	}
	if !unique {
		reasons = append(reasons, fmt.Sprintf("no unique index is on (consumer_group, message_id) of %s", s.plainName()))
	}
	missing, err := s.lacking(ctx, db)
	if len(missing) > 0 {
		reasons = append(reasons, fmt.Sprintf("the account has no right to it: GRANT %s ON %s TO …", strings.Join(missing, ", "), s.plainName()))
	}
	return reasons, err
}

// lacking returns the rights that the account has not. The server asks for them
// before it explains, and changes nothing.
func (s *sharedLog) lacking(ctx context.Context, db *sql.DB) (missing []string, err error) {
	for _, may := range []struct{ right, query string }{{"SELECT", mayReadLog}, {"INSERT", mayInsertLog}, {"UPDATE", mayUpdateLog}, {"DELETE", mayDeleteLog}} {
		rows, err := db.QueryContext(ctx, fmt.Sprintf(may.query, s.table()))
		if err == nil {
			err = errors.Join(rows.Close(), rows.Err())
		}
		switch {
		case lacksRight(err):
			missing = append(missing, may.right)
		case err != nil:
			return nil, err
		}
	}
	return missing, nil
}

// sharedStatuses finds the words that the log has, and what they mean.
func (a *Adopt) sharedStatuses(ctx context.Context, l *adoptLook, d, before *sharedLog) (reasons []string, err error) {
	given := a.cfg.ConsumeStatus
	if given == nil && before != nil {
		given = before.Status
	}
	query, err := d.newest(ctx, l.db, newestWords, someWords)
	if err != nil {
		return nil, err
	}
	var found []migrate.AdoptStatus
	var s migrate.AdoptStatus
	if err := each(ctx, l.db, []any{&s.Word, &s.Rows}, func() { found = append(found, s) }, fmt.Sprintf(query, d.table())); err != nil {
		return nil, err
	}
	reasons = d.Words(given, found, d.plainName())
	l.Plan.ConsumeStatuses = found
	if labels := enumLabels(d.Columns["status"]); len(labels) > 0 && len(reasons) == 0 {
		for _, kind := range []string{migrate.ConsumeSuccess, migrate.ConsumeProcessing} {
			if !slices.Contains(labels, d.Word(kind)) {
				reasons = append(reasons, fmt.Sprintf("the type of status in %s has no word %s: --consume-status %s=…", d.plainName(), d.Word(kind), kind))
			}
		}
	}
	return reasons, nil
}

// newest chooses the query for the table's newest rows, or the other one where
// it has no id.
func (s *sharedLog) newest(ctx context.Context, db querier, newest, some string) (string, error) {
	var numbers bool
	if err := db.QueryRowContext(ctx, hasColumnID, s.Schema, s.Name).Scan(&numbers); err != nil || !numbers {
		return some, err
	}
	return newest, nil
}

// putShared writes what was decided of the log. Processes that start from now
// on share it.
func putShared(ctx context.Context, db *sql.DB, d *sharedLog) error {
	if d == nil {
		return nil
	}
	decided, err := json.Marshal(d)
	if err == nil {
		_, err = db.ExecContext(ctx, putSharedLog, string(decided))
	}
	return err
}
