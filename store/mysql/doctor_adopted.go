package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/adopt"
	"github.com/settlemq/settle/store/migrate"
)

// findForeign looks whether the outbox is a table of another owner, and whether
// a consume log is shared. An account that may not read what was decided is told
// so by privileges.
func (x *examination) findForeign(ctx context.Context) error {
	var adopted bool
	err := x.db.QueryRowContext(ctx, hasAdoption).Scan(&adopted)
	if err == nil && adopted {
		x.adopted, x.finished, err = x.server.readAdoption(ctx, x.db)
	}
	if err == nil {
		x.shared, err = x.server.loadSharedLog(ctx, x.db)
	}
	if lacksRight(err) {
		return nil
	}
	return err
}

// reading returns a query about the outbox as this database takes it; see
// Store.reading.
func (x *examination) reading(query string) string {
	if x.adopted == nil {
		return query
	}
	return x.adopted.names.Replace(query)
}

// outboxAt is where the table of the outbox is, and what people call it.
func (x *examination) outboxAt() (database, table, name string) {
	if x.adopted == nil {
		return x.url.DBName, "t_outbox_event", "t_outbox_event"
	}
	return x.adopted.Schema, x.adopted.Name, x.adopted.plainName()
}

func (x *examination) adoptedChecks() []check {
	return []check{
		{"adoption", "the relay reads and writes the columns and words as they were when the table was adopted", x.adoption},
		{"payload", "consumers get the payload as the server gives it back, and a business whose payload does not fit fails", x.payload},
		{"set_back", "a row that waits in the table although the relay is done with it is one that a person or a program has set back", x.setBack},
	}
}

// adoptedTypes are the columns as they are now, empty for a table that is gone.
func (x *examination) adoptedTypes(ctx context.Context) (map[string]string, error) {
	types := map[string]string{}
	var name, typed, charset, collation, extra string
	err := each(ctx, x.db, []any{&name, &typed, &charset, &collation, &extra}, func() { types[strings.ToLower(name)] = typed }, tableColumns, x.adopted.Schema, x.adopted.Name)
	if err != nil || len(types) == 0 {
		return types, err
	}
	json, err := x.server.jsonColumns(ctx, x.db, x.adopted.table())
	for _, name := range json {
		types[name] = "json"
	}
	return types, err
}

func (x *examination) adoption(ctx context.Context) (doctor.Diagnosis, error) {
	types, err := x.adoptedTypes(ctx)
	table := x.adopted.plainName()
	switch {
	case err != nil:
		return doctor.Diagnosis{}, err
	case len(types) == 0:
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("the table %s is gone, or %s has no right to it", table, x.url.User),
				"rename it back, or grant what privileges names; or settle migrate --adopt --table … with a new database in the URL, for the table that has taken its place"),
			nil
	case !x.finished:
		return doctor.Diagnose(doctor.Bad, "the adoption is not finished", "settle migrate --adopt --yes"), nil
	}
	var p problems
	verdict := doctor.Warn
	for _, name := range append(adopt.Essentials(), adopt.Optionals()...) {
		if was, is := x.adopted.Columns[name], types[name]; was != is {
			if !widened(was, is) {
				verdict = doctor.Bad
			}
			p.add(fmt.Sprintf("column %s was %s when the table was adopted and is %s", name, orMissing(was), orMissing(is)), "settle migrate --adopt shows how it would be read now; with --yes it is, by processes that start then")
		}
	}
	minor := len(p.found)
	if err := x.adoptedEngine(ctx, &p); err != nil {
		return doctor.Diagnosis{}, err
	}
	if err = x.strangeWords(ctx, &p, types); len(p.found) > minor {
		verdict = doctor.Bad
	}
	return p.diagnosis(verdict, "%s is read from database %s", table, x.url.DBName), err
}

func (x *examination) adoptedEngine(ctx context.Context, p *problems) error {
	var schema, name, kind, engine string
	err := x.db.QueryRowContext(ctx, findTable, x.adopted.Schema, x.adopted.Name).Scan(&schema, &name, &kind, &engine)
	if err == nil && engine != "InnoDB" {
		p.add(x.adopted.plainName()+" is "+engine+": events are sent of transactions that were rolled back", "ALTER TABLE "+x.adopted.table()+" ENGINE = InnoDB")
	}
	return err
}

// widened reports whether a column of text only takes longer text than before:
// what is read and written goes on as it was.
func widened(was, is string) bool {
	if baseType(was) == "varchar" && baseType(is) == "varchar" {
		return columnWidth(is) > columnWidth(was)
	}
	sizes := []string{"varchar", "text", "mediumtext", "longtext"}
	before, now := -1, -1
	for i, size := range sizes {
		if baseType(was) == size {
			before = i
		}
		if baseType(is) == size {
			now = i
		}
	}
	return before >= 0 && now > before
}

// strangeWords adds words in the status that nobody has given a meaning: they
// have appeared since, and their rows are passed.
func (x *examination) strangeWords(ctx context.Context, p *problems, types map[string]string) error {
	if !x.adopted.Project || !x.adopted.StatusIndex || types["status"] == "" {
		return nil
	}
	words, err := statusWords(ctx, x.db, x.adopted)
	for _, word := range words {
		if x.adopted.KindOf(word) == "" {
			p.add(fmt.Sprintf("status %q has no meaning that was decided: its rows are not sent", word),
				"settle migrate --adopt --yes --status KIND="+word+" says which; serve goes by it when it starts anew")
		}
	}
	return err
}

func orMissing(typed string) string {
	if typed == "" {
		return "missing"
	}
	return typed
}

// adoptedRights adds those on the table of another owner that are missing. One
// that is gone, or that the server does not show, adoption tells of.
func (x *examination) adoptedRights(ctx context.Context, p *problems) error {
	if x.adopted == nil {
		return nil
	}
	missing, err := x.adopted.lacking(ctx, x.db)
	if hasCode(err, codeNoTable) || hasCode(err, codeNoColumn) {
		return nil
	}
	if rights := strings.Join(missing, ", "); rights != "" {
		p.add(fmt.Sprintf("%s lacks %s on %s", x.url.User, rights, x.adopted.plainName()), fmt.Sprintf("GRANT %s ON %s TO %s", rights, x.adopted.table(), x.account))
	}
	return err
}

const firstColumns = `SELECT column_name, non_unique = 0 AND sub_part IS NULL FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? AND seq_in_index = 1`

// adoptedIndexes adds what the table of another owner has no index for.
func (x *examination) adoptedIndexes(ctx context.Context, p *problems) error {
	if x.adopted == nil {
		return nil
	}
	first, unique := map[string]bool{}, map[string]bool{}
	var name string
	var once bool
	err := each(ctx, x.db, []any{&name, &once}, func() {
		name = strings.ToLower(name)
		first[name], unique[name] = true, unique[name] || once
	}, firstColumns, x.adopted.Schema, x.adopted.Name)
	if err != nil || len(first) == 0 { // a table that is gone, adoption tells of
		return err
	}
	table := x.adopted.plainName()
	if !unique["event_id"] {
		p.add(table+" has no unique index that begins with event_id", "CREATE UNIQUE INDEX u_event ON "+table+" (event_id)")
	}
	if !first["status"] {
		p.add(table+" has no index that begins with status", "CREATE INDEX i_status ON "+table+" (status, id)")
	}
	return nil
}

func (x *examination) payload(ctx context.Context) (doctor.Diagnosis, error) {
	types, err := x.adoptedTypes(ctx)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	table := x.adopted.table()
	switch typed := types["payload"]; baseType(typed) {
	case "json":
		if !x.server.mariadb {
			return doctor.Diagnose(doctor.Warn, "json: keys are sorted, spaces set, 1E+3 becomes 1000, of two equal keys one is dropped", "let nobody sign or compare the payload's bytes, or write them to a column of type LONGTEXT"), nil
		}
		return doctor.Sound("json, which the server keeps as it was written"), nil
	case "varchar", "char", "varbinary", "tinytext", "tinyblob", "text", "blob":
		return doctor.Diagnose(doctor.Warn, typed+": a longer payload fails the business transaction", "ALTER TABLE "+table+" MODIFY COLUMN payload MEDIUMTEXT NOT NULL"), nil
	default:
		return doctor.Sound("%s keeps what was written", orMissing(typed)), nil
	}
}

const foreignTrace = `SELECT foreign_rows, foreign_id, foreign_seen_at, coalesce(foreign_seen_at > UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND, false) FROM settle_adoption`

// foreignTraces says what the relay itself has seen of another one.
func (x *examination) foreignTraces(ctx context.Context) (string, error) {
	var rows, last int64
	var at timeColumn
	var lately bool
	err := x.db.QueryRowContext(ctx, foreignTrace, foreignLately.Microseconds()).Scan(&rows, &last, &at, &lately)
	if errors.Is(err, sql.ErrNoRows) || err == nil && !lately {
		return "", nil
	}
	return fmt.Sprintf("%d rows were sent or taken by another relay than Settle's, the last at %s (id %d)", rows, at.Format(time.RFC3339), last), err
}

// manyStrays is how many rows that were set back are looked at.
const manyStrays = 1000

// strays are rows that wait though every reader has passed them, as a sweep of
// the relay's finds them.
func (x *examination) strays(ctx context.Context) (all []stray, err error) {
	l := &Log{s: &Store{adopted: x.adopted, status: newStatusSweep(x.adopted), server: x.server}}
	err = snapshot(ctx, x.db, func(tx *sql.Tx) error {
		lanes, err := positions(ctx, tx)
		if err == nil {
			all, err = l.strays(ctx, tx, lanes, manyStrays)
		}
		return err
	})
	return all, err
}

func (x *examination) setBack(ctx context.Context) (doctor.Diagnosis, error) {
	if !x.adopted.sweepable() || !x.adopted.StatusIndex {
		return doctor.Sound("the status is not looked at"), nil
	}
	all, err := x.strays(ctx)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	var again, dead, tried []string
	for _, s := range all {
		switch {
		case s.givenUp:
			dead = append(dead, s.eventID)
		case s.sent && s.tried:
			tried = append(tried, s.eventID)
		case s.sent:
			again = append(again, s.eventID)
		}
	}
	var p problems
	if len(again) > 0 {
		p.add(fmt.Sprintf("%d rows that were sent wait again (%s …); while another relay is at work they are not sent once more", len(again), again[0]), "stop the other relay; a quarter of an hour later they are sent again, or at once by settle outbox resend")
	}
	if len(tried) > 0 {
		p.add(fmt.Sprintf("%d rows that were sent wait again (%s …): another relay has tried them too, and has saved them as it had read them", len(tried), tried[0]),
			fmt.Sprintf("stop the other relay; then UPDATE %s SET status = %s WHERE event_id = … for each, or settle outbox resend to have it sent once more", x.adopted.plainName(), x.adopted.word(migrate.StatusSent)))
	}
	if len(dead) > 0 {
		p.add(fmt.Sprintf("%d rows that are dead letters, or were passed, were set back (%s …)", len(dead), dead[0]), "settle dead replay")
	}
	return p.diagnosis(doctor.Warn, "none"), nil
}
