package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/adopt"
	"github.com/settlemq/settle/store/migrate"
)

// findShared looks whether a consume log of another owner is shared. A role that
// may not read what was decided is told so by privileges.
func (x *examination) findShared(ctx context.Context) (err error) {
	x.shared, err = loadSharedLog(ctx, x.conn)
	if hasState(err, stateNoRight) {
		return nil
	}
	return err
}

func (x *examination) sharedChecks() []check {
	return []check{
		{"shared_log", "consumers read and write the columns and words of the shared consume log as they were when it was adopted", x.sharedShape},
		{"shared_log_rights", "without its rights on the shared consume log a consumer stops at its first event", x.sharedPrivileges},
		{"shared_log_zone", "a row whose time is read in another zone than it was written in is taken over hours too early, or too late", x.sharedTimes},
		{"shared_log_stuck", "a message that a foreign consumer has begun and not ended may have had no effect", x.sharedStuck},
	}
}

const hasSharedTable = `SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p')),
 coalesce((SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = $1), false)`

// reachShared returns what keeps the table from being looked at; empty: nothing.
func (x *examination) reachShared(ctx context.Context) (doctor.Diagnosis, error) {
	var there, usable bool
	if err := x.conn.QueryRow(ctx, hasSharedTable, x.shared.Schema, x.shared.Name).Scan(&there, &usable); err != nil {
		return doctor.Diagnosis{}, err
	}
	switch {
	case !there:
		return doctor.Diagnose(doctor.Bad, "the table "+x.shared.plainName()+" is gone", "rename it back; or settle migrate --adopt --yes --consume-log NAME, for the table that has taken its place"), nil
	case !usable:
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("%s may not use schema %s", x.role, x.shared.Schema), fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s", ident(x.shared.Schema), ident(x.role))), nil
	}
	return doctor.Diagnosis{}, nil
}

func (x *examination) sharedShape(ctx context.Context) (doctor.Diagnosis, error) {
	if d, err := x.reachShared(ctx); d.Found != "" || err != nil {
		return d, err
	}
	var p problems
	verdict, err := x.sharedColumns(ctx, &p)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	minor := len(p.found)
	var unique bool
	if err := x.conn.QueryRow(ctx, sharedUnique, x.shared.table()).Scan(&unique); err != nil {
		return doctor.Diagnosis{}, err
	}
	if !unique {
		p.add("no unique index is on (consumer_group, message_id): nothing keeps two consumers from one message", "CREATE UNIQUE INDEX CONCURRENTLY ON "+x.shared.plainName()+" (consumer_group, message_id)")
	}
	if err := x.sharedWords(ctx, &p); err != nil {
		return doctor.Diagnosis{}, err
	}
	if len(p.found) > minor {
		verdict = doctor.Bad
	}
	return p.diagnosis(verdict, "%s is shared with foreign consumers", x.shared.plainName()), nil
}

// sharedColumns adds what differs from the columns that were decided about, and
// returns how bad that is.
func (x *examination) sharedColumns(ctx context.Context, p *problems) (doctor.Verdict, error) {
	types, needed := map[string]string{}, map[string]bool{}
	var name, typed string
	var limit int
	var must bool
	if err := x.each(ctx, []any{&name, &typed, &limit, &must}, func() { types[name], needed[name] = typed, must }, sharedColumns, x.shared.table()); err != nil {
		return "", err
	}
	table, verdict := x.shared.plainName(), doctor.Warn
	for _, name := range slices.Sorted(maps.Keys(x.shared.Columns)) {
		was, is := x.shared.Columns[name], types[name]
		switch {
		case is == was:
		case is == "":
			verdict = doctor.Bad
			p.add(fmt.Sprintf("column %s is missing", name), fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", table, name, was))
		default:
			if !widened(was, is) {
				verdict = doctor.Bad
			}
			p.add(fmt.Sprintf("column %s was %s when the log was adopted and is %s", name, was, is),
				"settle migrate --adopt --consume-log "+table+" shows how it would be read now; with --yes it is, by processes that start then")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		if needed[name] && x.shared.Columns[name] == "" {
			verdict = doctor.Bad
			p.add(fmt.Sprintf("column %s must have a value, and Settle has none for it", name), fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s DROP NOT NULL", table, ident(name)))
		}
	}
	return verdict, nil
}

// sharedWords adds words in the status that nobody has given a meaning.
func (x *examination) sharedWords(ctx context.Context, p *problems) error {
	var word string
	var rows int
	query, err := x.newestShared(ctx, newestWords, someWords)
	if err != nil || query == "" {
		return err
	}
	return x.each(ctx, []any{&word, &rows}, func() {
		if x.shared.KindOf(word) == "" {
			p.add(fmt.Sprintf("status %q of %d rows has no meaning that was decided: they are never taken over", word, rows),
				"settle migrate --adopt --yes --consume-log "+x.shared.plainName()+" --consume-status KIND="+word+" says which; consumers go by it when they start anew")
		}
	}, fmt.Sprintf(query, x.shared.table()))
}

// newestShared chooses the query for the table's newest rows, or the other one
// where it has no id. It is empty where columns or rights are missing, which
// has been said.
func (x *examination) newestShared(ctx context.Context, newest, some string) (string, error) {
	var readable bool
	if err := x.conn.QueryRow(ctx, sharedReadable, x.shared.table(), adopt.ConsumeEssentials()).Scan(&readable); err != nil || !readable {
		return "", err
	}
	var numbers bool
	if err := x.conn.QueryRow(ctx, hasColumnID, x.shared.table()).Scan(&numbers); err != nil {
		return "", err
	}
	if !numbers {
		return some, nil
	}
	return newest, nil
}

const sharedReadable = `SELECT has_table_privilege(to_regclass($1), 'SELECT') AND (SELECT count(*) FROM pg_attribute
WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped AND attname = ANY($2)) = cardinality($2::text[])`

func (x *examination) sharedPrivileges(ctx context.Context) (doctor.Diagnosis, error) {
	if d, err := x.reachShared(ctx); d.Found != "" || err != nil {
		return d, err
	}
	var missing []string
	var right string
	if err := x.each(ctx, []any{&right}, func() { missing = append(missing, right) }, sharedRights, x.shared.table()); err != nil {
		return doctor.Diagnosis{}, err
	}
	var p problems
	if rights := strings.Join(missing, ", "); rights != "" {
		p.add(fmt.Sprintf("%s lacks %s on %s", x.role, rights, x.shared.plainName()), fmt.Sprintf("GRANT %s ON %s TO %s", rights, x.shared.plainName(), ident(x.role)))
	}
	var numbers bool
	if err := x.conn.QueryRow(ctx, hasColumnID, x.shared.table()).Scan(&numbers); err != nil {
		return doctor.Diagnosis{}, err
	}
	if numbers {
		var sequence string
		var may bool
		if err := x.conn.QueryRow(ctx, sharedIDs, x.shared.table()).Scan(&sequence, &may); err != nil {
			return doctor.Diagnosis{}, err
		}
		if !may {
			p.add(fmt.Sprintf("%s may not number its rows", x.role), fmt.Sprintf("GRANT USAGE ON SEQUENCE %s TO %s", sequence, ident(x.role)))
		}
	}
	return p.diagnosis(doctor.Bad, "%s has every right it needs on %s", x.role, x.shared.plainName()), nil
}

const (
	// What a foreign consumer writes now lies ahead of the clock if its zone is
	// further east than the one that was decided, and before the event itself if
	// it is further west.
	newestTimes = `SELECT extract(epoch FROM max(n.at) - clock_timestamp())::float8,
 coalesce(extract(epoch FROM max(l.appended_at - n.at) FILTER (WHERE l.processed_no IS NOT NULL)), 0)::float8
FROM (SELECT consumer_group, message_id, %[2]s AS at FROM %[1]s ORDER BY id DESC LIMIT 1000) n
LEFT JOIN t_message_consume_log l ON l.consumer_group = n.consumer_group AND l.event_id = n.message_id`
	someTimes = `SELECT extract(epoch FROM max(n.at) - clock_timestamp())::float8,
 coalesce(extract(epoch FROM max(l.appended_at - n.at) FILTER (WHERE l.processed_no IS NOT NULL)), 0)::float8
FROM (SELECT consumer_group, message_id, %[2]s AS at FROM %[1]s LIMIT 1000) n
LEFT JOIN t_message_consume_log l ON l.consumer_group = n.consumer_group AND l.event_id = n.message_id`
)

func (x *examination) sharedTimes(ctx context.Context) (doctor.Diagnosis, error) {
	if !zoneless(x.shared.Columns["consumed_at"]) {
		return doctor.Sound("consumed_at has a zone"), nil
	}
	query, err := x.newestShared(ctx, newestTimes, someTimes)
	if err != nil || query == "" {
		return doctor.Sound("%s can't be read", x.shared.plainName()), err
	}
	var ahead *float64
	var before float64
	if err := x.conn.QueryRow(ctx, fmt.Sprintf(query, x.shared.table(), x.shared.zoned())).Scan(&ahead, &before); err != nil {
		return doctor.Diagnosis{}, err
	}
	if ahead == nil {
		return doctor.Sound("there is no row yet whose time could show that the zone is %s", x.shared.Zone), nil
	}
	fix := "settle migrate --adopt --yes --consume-log " + x.shared.plainName() + " --zone with the zone of the programs that write it, for instance Asia/Shanghai; consumers go by it when they start anew"
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)).Round(time.Second) }
	switch off, early := seconds(*ahead), seconds(before); {
	case off > adopt.ClockSkew:
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("a row's consumed_at is %s ahead of the clock if its zone is %s", off, x.shared.Zone), fix), nil
	case early > adopt.ClockSkew:
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("a row's consumed_at is %s before its event was stored if its zone is %s", early, x.shared.Zone), fix), nil
	}
	return doctor.Sound("consumed_at is of the zone %s, as far as rows show", x.shared.Zone), nil
}

// takeoverUsual is takeover_after where nothing else is said.
const takeoverUsual = 15 * time.Minute

const (
	// What Settle itself keeps waiting says so here, too.
	stuckShared = `SELECT n.consumer_group, count(*), min(n.at), (array_agg(n.message_id ORDER BY n.at))[1]
FROM (SELECT consumer_group::text, message_id::text, status::text, %[2]s AS at FROM %[1]s ORDER BY id DESC LIMIT 100000) n ` + stuckRows
	someStuckShared = `SELECT n.consumer_group, count(*), min(n.at), (array_agg(n.message_id ORDER BY n.at))[1]
FROM (SELECT consumer_group::text, message_id::text, status::text, %[2]s AS at FROM %[1]s LIMIT 100000) n ` + stuckRows
	stuckRows = `WHERE n.status <> ALL ($1) AND n.at < clock_timestamp() - $2::bigint * interval '1 microsecond'
AND NOT EXISTS (SELECT 1 FROM t_message_consume_log l WHERE l.consumer_group = n.consumer_group AND l.event_id = n.message_id)
AND NOT EXISTS (SELECT 1 FROM t_consume_retry r WHERE r.consumer_group = n.consumer_group AND r.event_id = n.message_id)
GROUP BY n.consumer_group ORDER BY n.consumer_group`
)

func (x *examination) sharedStuck(ctx context.Context) (doctor.Diagnosis, error) {
	query, err := x.newestShared(ctx, stuckShared, someStuckShared)
	if err != nil || query == "" {
		return doctor.Sound("%s can't be read", x.shared.plainName()), err
	}
	var p problems
	var group, first string
	var rows int
	var since time.Time
	err = x.each(ctx, []any{&group, &rows, &since, &first}, func() {
		p.add(fmt.Sprintf("%d messages of group %s were begun by foreign consumers more than %s ago and not ended, the first, %s, at %s", rows, group, takeoverUsual, first, since.UTC().Format(time.RFC3339)),
			fmt.Sprintf("have each delivered once more (settle outbox resend EVENT_ID): a consumer of Settle in the group takes it over; before foreign ones do, DELETE FROM %s WHERE consumer_group = … AND message_id = …", x.shared.plainName()))
	}, fmt.Sprintf(query, x.shared.table(), x.shared.zoned()), x.shared.Status[migrate.ConsumeSuccess], takeoverUsual.Microseconds())
	return p.diagnosis(doctor.Warn, "none in the newest 100,000 rows"), err
}
