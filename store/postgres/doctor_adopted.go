package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/adopt"
	"github.com/settlemq/settle/store/migrate"
)

// findAdopted looks whether the outbox is a table of another owner. A role that
// may not read what was decided is told so by privileges.
func (x *examination) findAdopted(ctx context.Context) error {
	var adopted bool
	err := x.conn.QueryRow(ctx, readsAdopted).Scan(&adopted)
	if err == nil && adopted {
		x.adopted, _, err = readAdoption(ctx, x.conn)
	}
	if hasState(err, stateNoRight) {
		return nil
	}
	return err
}

// of puts the adopted table into a query that names our own.
func (x *examination) of(query string) string {
	if x.adopted == nil {
		return query
	}
	return strings.NewReplacer(`\mt_outbox_event\M`, `\m`+x.adopted.Name+`\M`, `"?t_outbox_event\M`, `"?`+x.adopted.Name+`\M`,
		"'t_outbox_event_seq', 't_outbox_event_id_seq'", literal(x.adopted.Name+"_seq")+", "+literal(x.adopted.Name+"_id_seq"),
		"'t_outbox_event'", literal(x.adopted.table()), "FROM t_outbox_event", "FROM "+x.adopted.table()).Replace(query)
}

// named is what a person reads, with the adopted table's name.
func (x *examination) named(text string) string {
	if x.adopted == nil {
		return text
	}
	name := x.adopted.plainName()
	return strings.NewReplacer(name, name, "t_outbox_event", name).Replace(text)
}

func (x *examination) adoptedChecks() []check {
	return []check{
		{"adoption", "the relay reads and writes the columns and words as they were when the table was adopted", x.adoptedColumns},
		{"set_back", "a row that waits in the table although the relay is done with it is one that a person or a program has set back", x.setBack},
	}
}

func (x *examination) adoptedColumns(ctx context.Context) (doctor.Diagnosis, error) {
	if x.outbox == nil {
		var enters bool
		if err := x.conn.QueryRow(ctx, tableRights, x.adopted.Schema, x.adopted.Name).Scan(&enters, nil, nil); err == nil && !enters {
			return doctor.Diagnose(doctor.Bad, "the columns of "+x.adopted.plainName()+" can't be looked at", "what privileges names"), nil
		}
		return doctor.Diagnose(doctor.Bad, "the table "+x.adopted.plainName()+" is gone", "rename it back; or settle migrate --adopt --table … with ?search_path= of a new schema in the URL, for the table that has taken its place"), nil
	}
	_, done, err := readAdoption(ctx, x.conn)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	if !done {
		return doctor.Diagnose(doctor.Bad, "the adoption is not finished", "settle migrate --adopt --yes"), nil
	}
	var p problems
	verdict := doctor.Warn
	for _, name := range append(adopt.Essentials(), adopt.Optionals()...) {
		if was, is := x.adopted.Columns[name], x.outbox.types[name]; was != is {
			if !widened(was, is) {
				verdict = doctor.Bad
			}
			p.add(fmt.Sprintf("column %s was %s when the table was adopted and is %s", name, orMissing(was), orMissing(is)), "settle migrate --adopt shows how it would be read now; with --yes it is, by processes that start then")
		}
	}
	changed := len(p.found)
	if err = x.strangeWords(ctx, &p); len(p.found) > changed {
		verdict = doctor.Bad
	}
	return p.diagnosis(verdict, "%s is read from schema %s", x.adopted.plainName(), x.schema), err
}

// widened reports whether a column of text only takes longer text than before:
// what is read and written goes on as it was.
func widened(was, is string) bool {
	var before, now int
	if _, err := fmt.Sscanf(was, "character varying(%d)", &before); err != nil {
		return was == "character varying" && is == "text"
	}
	_, err := fmt.Sscanf(is, "character varying(%d)", &now)
	return err == nil && now > before || is == "character varying" || is == "text"
}

// strangeWords adds words in the status that nobody has given a meaning: they
// have appeared since, and their rows are passed.
func (x *examination) strangeWords(ctx context.Context, p *problems) error {
	if !x.adopted.Project || !x.adopted.StatusIndex || x.outbox.types["status"] == "" {
		return nil
	}
	var word string
	return x.each(ctx, []any{&word}, func() {
		if x.adopted.KindOf(word) == "" {
			p.add(fmt.Sprintf("status %q has no meaning that was decided: its rows are not sent", word),
				"settle migrate --adopt --yes --status KIND="+word+" says which; serve goes by it when it starts anew")
		}
	}, fmt.Sprintf(seekWords, x.adopted.table()))
}

func orMissing(typed string) string {
	if typed == "" {
		return "missing"
	}
	return typed
}

const foreignTrace = `SELECT foreign_rows, foreign_id, coalesce(foreign_seen_at, 'epoch'), coalesce(foreign_seen_at > now() - $1::bigint * interval '1 microsecond', false) FROM settle_adoption`

// foreignTraces says what the relay itself has seen of another one.
func (x *examination) foreignTraces(ctx context.Context) (string, error) {
	var rows, last int64
	var at time.Time
	var lately bool
	err := x.conn.QueryRow(ctx, foreignTrace, foreignLately.Microseconds()).Scan(&rows, &last, &at, &lately)
	if err != nil || !lately {
		return "", err
	}
	return fmt.Sprintf("%d rows were sent or taken by another relay than Settle's, the last at %s (id %d)", rows, at.UTC().Format(time.RFC3339), last), nil
}

// manyStrays is how many rows that were set back are looked at.
const manyStrays = 1000

func (x *examination) setBack(ctx context.Context) (doctor.Diagnosis, error) {
	if !x.adopted.sweepable() || !x.adopted.StatusIndex {
		return doctor.Sound("the status is not looked at"), nil
	}
	var s stray
	var looked, last int64
	var again, dead, tried []string
	err := x.each(ctx, []any{&looked, &last, &s.id, &s.eventID, &s.sent, &s.givenUp, &s.tried}, func() {
		switch {
		case s.givenUp:
			dead = append(dead, s.eventID)
		case s.sent && s.tried:
			tried = append(tried, s.eventID)
		case s.sent:
			again = append(again, s.eventID)
		}
	}, newStatusSweep(x.adopted).strays, int64(0), statusLook, manyStrays)
	if err != nil {
		return doctor.Diagnosis{}, err
	}
	var p problems
	if len(again) > 0 {
		p.add(fmt.Sprintf("%d rows that were sent wait again (%s …); while another relay is at work they are not sent once more", len(again), again[0]), "stop the other relay; a quarter of an hour later they are sent again, or at once by settle outbox resend")
	}
	if len(tried) > 0 {
		p.add(fmt.Sprintf("%d rows that were sent wait again (%s …): another relay has tried them too, and has saved them as it had read them", len(tried), tried[0]),
			fmt.Sprintf("stop the other relay; then UPDATE %s SET status = %s WHERE event_id = … for each, or settle outbox resend to have it sent once more", x.adopted.plainName(), literal(x.adopted.Status[migrate.StatusSent][0])))
	}
	if len(dead) > 0 {
		p.add(fmt.Sprintf("%d rows that are dead letters, or were passed, were set back (%s …)", len(dead), dead[0]), "settle dead replay")
	}
	return p.diagnosis(doctor.Warn, "none"), nil
}
