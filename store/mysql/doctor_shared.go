package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/adopt"
)

func (x *examination) sharedChecks() []check {
	return []check{
		{"shared_log", "consumers read and write the columns and words of the shared consume log as they were when it was adopted", x.sharedShape},
		{"shared_log_rights", "without its rights on the shared consume log a consumer stops at its first event", x.sharedPrivileges},
		{"shared_log_zone", "a row whose time is read in another zone than it was written in is taken over hours too early, or too late", x.sharedTimes},
		{"shared_log_stuck", "a message that a foreign consumer has begun and not ended may have had no effect", x.sharedStuck},
	}
}

// sharedNow is the log as it is now; there is false when it is gone, or can't be
// seen.
func (x *examination) sharedNow(ctx context.Context) (now *sharedLog, engine string, there bool, err error) {
	now = x.server.newSharedLog()
	there, engine, err = now.find(ctx, x.db, []string{x.shared.Schema, x.shared.Name})
	if err == nil && there {
		_, _, err = now.columns(ctx, x.db)
	}
	return now, engine, there, err
}

func (x *examination) sharedShape(ctx context.Context) (doctor.Diagnosis, error) {
	now, engine, there, err := x.sharedNow(ctx)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	if !there {
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("the table %s is gone, or %s has no right to it", x.shared.plainName(), x.url.User),
				"rename it back, or GRANT SELECT, INSERT, UPDATE, DELETE on it; or settle migrate --adopt --yes --consume-log NAME, for the table that has taken its place"),
			nil
	}
	var p problems
	verdict, err := x.sharedColumns(ctx, now, &p)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	minor := len(p.found)
	var unique bool
	if err := x.db.QueryRowContext(ctx, sharedUnique, x.shared.Schema, x.shared.Name).Scan(&unique); err != nil {
		return doctor.Diagnosis{}, err
	}
	if !unique {
		p.add("no unique index is on (consumer_group, message_id): nothing keeps two consumers from one message", "ALTER TABLE "+x.shared.plainName()+" ADD UNIQUE KEY uk_group_message (consumer_group, message_id)")
	}
	if engine != "InnoDB" {
		p.add("it is "+engine+": its rows are stored whether or not a transaction commits", "ALTER TABLE "+x.shared.plainName()+" ENGINE = InnoDB")
	}
	if err := x.sharedWords(ctx, now, &p); err != nil {
		return doctor.Diagnosis{}, err
	}
	if len(p.found) > minor {
		verdict = doctor.Bad
	}
	return p.diagnosis(verdict, "%s is shared with foreign consumers", x.shared.plainName()), nil
}

// sharedColumns adds what differs from the columns that were decided about, and
// returns how bad that is.
func (x *examination) sharedColumns(ctx context.Context, now *sharedLog, p *problems) (doctor.Verdict, error) {
	table, verdict := x.shared.plainName(), doctor.Warn
	again := "settle migrate --adopt --consume-log " + table + " shows how it would be read now; with --yes it is, by processes that start then"
	for _, name := range slices.Sorted(maps.Keys(x.shared.Columns)) {
		was, is := x.shared.Columns[name], now.Columns[name]
		switch {
		case is == "":
			verdict = doctor.Bad
			p.add(fmt.Sprintf("column %s is missing", name), fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", table, name, was))
		case is != was:
			if !widened(was, is) {
				verdict = doctor.Bad
			}
			p.add(fmt.Sprintf("column %s was %s when the log was adopted and is %s", name, was, is), again)
		case x.shared.Charsets[name] != now.Charsets[name]:
			verdict = doctor.Bad
			p.add(fmt.Sprintf("column %s was %s when the log was adopted and is %s", name, x.shared.Charsets[name], now.Charsets[name]), again)
		}
	}
	var name, typed, charset, collation string
	var limit int
	var needed bool
	err := each(ctx, x.db, []any{&name, &typed, &limit, &charset, &collation, &needed}, func() {
		if name = strings.ToLower(name); needed && now.Columns[name] == "" {
			verdict = doctor.Bad
			p.add(fmt.Sprintf("column %s must have a value, and Settle has none for it", name), fmt.Sprintf("ALTER TABLE %s MODIFY COLUMN %s %s NULL", table, quoted(name), typed))
		}
	}, sharedColumns, x.shared.Schema, x.shared.Name)
	return verdict, err
}

// sharedWords adds words in the status that nobody has given a meaning.
func (x *examination) sharedWords(ctx context.Context, now *sharedLog, p *problems) error {
	if now.Columns["status"] == "" {
		return nil
	}
	query, err := x.shared.newest(ctx, x.db, newestWords, someWords)
	if err != nil {
		return err
	}
	var word string
	var rows int
	err = each(ctx, x.db, []any{&word, &rows}, func() {
		if x.shared.KindOf(word) == "" {
			p.add(fmt.Sprintf("status %q of %d rows has no meaning that was decided: they are never taken over", word, rows),
				"settle migrate --adopt --yes --consume-log "+x.shared.plainName()+" --consume-status KIND="+word+" says which; consumers go by it when they start anew")
		}
	}, fmt.Sprintf(query, x.shared.table()))
	if lacksRight(err) { // said by the rights
		return nil
	}
	return err
}

func (x *examination) sharedPrivileges(ctx context.Context) (doctor.Diagnosis, error) {
	missing, err := x.shared.lacking(ctx, x.db)
	if hasCode(err, codeNoTable) || hasCode(err, codeNoColumn) {
		return doctor.Sound("can't be asked of a table that is another one now"), nil
	}
	var p problems
	if rights := strings.Join(missing, ", "); rights != "" {
		p.add(fmt.Sprintf("%s lacks %s on %s", x.url.User, rights, x.shared.plainName()), fmt.Sprintf("GRANT %s ON %s TO %s", rights, x.shared.table(), x.account))
	}
	return p.diagnosis(doctor.Bad, "%s has every right it needs on %s", x.url.User, x.shared.plainName()), err
}

// newestShared is the newest rows of the log as a query sees them; empty where
// columns or rights are missing, which has been said.
func (x *examination) newestShared(ctx context.Context, rows int) (string, error) {
	now, _, there, err := x.sharedNow(ctx)
	if err != nil || !there || !now.Classic() {
		return "", err
	}
	err = each(ctx, x.db, slices.Repeat([]any{new(any)}, 4), func() {}, fmt.Sprintf(mayReadLog, x.shared.table()))
	if err != nil {
		if lacksRight(err) {
			err = nil
		}
		return "", err
	}
	order, err := x.shared.newest(ctx, x.db, " ORDER BY id DESC", "")
	exact := func(column string) string { return "CONVERT(" + column + " USING utf8mb4) COLLATE " + x.server.exact }
	return fmt.Sprintf("(SELECT %s AS consumer_group, %s AS message_id, CAST(status AS CHAR) AS status, %s AS at FROM %s%s LIMIT %d) n",
		exact("consumer_group"), exact("message_id"), x.shared.zoned(), x.shared.table(), order, rows), err
}

// What a foreign consumer writes now lies ahead of the clock if its zone is
// further east than the one that was decided, and before the event itself if it
// is further west.
const sharedAges = `SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), max(n.at)), coalesce(max(IF(l.processed_no IS NULL, NULL, TIMESTAMPDIFF(SECOND, n.at, l.appended_at))), 0)
FROM %s LEFT JOIN t_message_consume_log l ON l.consumer_group = n.consumer_group AND l.event_id = n.message_id`

func (x *examination) sharedTimes(ctx context.Context) (doctor.Diagnosis, error) {
	if !zoneless(x.shared.Columns["consumed_at"]) {
		return doctor.Sound("consumed_at is a TIMESTAMP, whose zone is the server's business"), nil
	}
	rows, err := x.newestShared(ctx, 1000)
	if err != nil || rows == "" {
		return doctor.Sound("%s can't be read", x.shared.plainName()), err
	}
	var ahead, before sql.NullInt64
	if err := x.db.QueryRowContext(ctx, fmt.Sprintf(sharedAges, rows)).Scan(&ahead, &before); err != nil {
		return doctor.Diagnosis{}, err
	}
	if !ahead.Valid {
		return doctor.Sound("there is no row yet whose time could show that the zone is %s", x.shared.Zone), nil
	}
	fix := "settle migrate --adopt --yes --consume-log " + x.shared.plainName() + " --zone with the zone of the programs that write it, for instance +08:00; consumers go by it when they start anew"
	switch off, early := time.Duration(ahead.Int64)*time.Second, time.Duration(before.Int64)*time.Second; {
	case off > adopt.ClockSkew:
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("a row's consumed_at is %s ahead of the clock if its zone is %s", off, x.shared.Zone), fix), nil
	case early > adopt.ClockSkew:
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("a row's consumed_at is %s before its event was stored if its zone is %s", early, x.shared.Zone), fix), nil
	}
	return doctor.Sound("consumed_at is of the zone %s, as far as rows show", x.shared.Zone), nil
}

// takeoverUsual is takeover_after where nothing else is said.
const takeoverUsual = 15 * time.Minute

// What Settle itself keeps waiting says so here, too.
const stuckShared = `SELECT n.consumer_group, count(*), min(n.at), min(n.message_id) FROM %s
WHERE n.status NOT IN (%s) AND n.at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND
AND NOT EXISTS (SELECT 1 FROM t_message_consume_log l WHERE l.consumer_group = n.consumer_group AND l.event_id = n.message_id)
AND NOT EXISTS (SELECT 1 FROM t_consume_retry r WHERE r.consumer_group = n.consumer_group AND r.event_id = n.message_id)
GROUP BY n.consumer_group ORDER BY n.consumer_group`

func (x *examination) sharedStuck(ctx context.Context) (doctor.Diagnosis, error) {
	rows, err := x.newestShared(ctx, 100_000)
	if err != nil || rows == "" {
		return doctor.Sound("%s can't be read", x.shared.plainName()), err
	}
	var p problems
	var group, first string
	var n int
	var since timeColumn
	err = each(ctx, x.db, []any{&group, &n, &since, &first}, func() {
		p.add(fmt.Sprintf("%d messages of group %s were begun by foreign consumers more than %s ago and not ended, the first at %s, one of them %s", n, group, takeoverUsual, since.Format(time.RFC3339), first),
			fmt.Sprintf("have each delivered once more (settle outbox resend EVENT_ID): a consumer of Settle in the group takes it over; before foreign ones do, DELETE FROM %s WHERE consumer_group = … AND message_id = …", x.shared.plainName()))
	}, fmt.Sprintf(stuckShared, rows, x.shared.done()), takeoverUsual.Microseconds())
	return p.diagnosis(doctor.Warn, "none in the newest 100,000 rows"), err
}
