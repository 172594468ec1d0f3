package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/store/adopt"
	"github.com/settlemq/settle/store/migrate"
)

// adoption is what was decided about a table of another owner, in the SQL of
// this database.
type adoption struct{ adopt.Outbox }

// decided is that for rows; nil of nothing.
func (a *adoption) decided() *adopt.Outbox {
	if a == nil {
		return nil
	}
	return &a.Outbox
}

const readAdopted = `SELECT decided::text, adopted_at IS NOT NULL FROM settle_adoption`

// loadAdoption returns nil for a schema that has an outbox of its own.
func loadAdoption(ctx context.Context, conn *pgx.Conn) (*adoption, error) {
	var adopted bool
	if err := conn.QueryRow(ctx, readsAdopted).Scan(&adopted); err != nil || !adopted {
		return nil, err
	}
	a, done, err := readAdoption(ctx, conn)
	if err == nil && (a == nil || !done) {
		err = errors.New("the adoption of a table was begun here and is not finished; settle migrate --adopt --yes goes on with it")
	}
	return a, err
}

// readAdoption returns what was decided, nil for nothing yet, and whether it
// was carried out.
func readAdoption(ctx context.Context, conn *pgx.Conn) (a *adoption, done bool, err error) {
	var text string
	err = conn.QueryRow(ctx, readAdopted).Scan(&text, &done)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	if err == nil {
		a = &adoption{}
		err = json.Unmarshal([]byte(text), a)
	}
	return a, done, err
}

// table is the adopted table as a query names it.
func (a *adoption) table() string { return pgx.Identifier{a.Schema, a.Name}.Sanitize() }

// plainName is the table as people write it: --table and SQL take it, so a part
// that must be quoted is.
func (a *adoption) plainName() string { return plain(a.Schema) + "." + plain(a.Name) }

func plain(name string) string {
	const digits = "0123456789"
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_"+digits) == "" && strings.TrimLeft(name, digits) == name {
		return name
	}
	return pgx.Identifier{name}.Sanitize()
}

// sweepable reports whether the status of rows says what they wait for.
func (a *adoption) sweepable() bool { return a != nil && a.Project }

// words of some kinds of status, as a list for IN. It is never empty: that
// would be no SQL.
func (a *adoption) words(kinds ...string) string {
	var all []string
	for _, kind := range kinds {
		for _, word := range a.Status[kind] {
			all = append(all, literal(word))
		}
	}
	if len(all) == 0 {
		return "NULL"
	}
	return strings.Join(all, ", ")
}

// word returns the expression that writes a kind of status; the status itself
// where the table has no word for it.
func (a *adoption) word(kind string) string {
	if len(a.Status[kind]) == 0 {
		return "e.status"
	}
	return literal(a.Status[kind][0]) + "::" + a.Columns["status"]
}

// zoned returns the expression that reads a column of time.
func (a *adoption) zoned(column string) string {
	switch {
	case !a.Has(column):
		return "NULL::timestamptz"
	case zoneless(a.Columns[column]):
		return "e." + column + " AT TIME ZONE " + literal(a.Zone)
	}
	return "e." + column
}

// stored returns the expression that writes an instant into a column of time.
func (a *adoption) stored(column, instant string) string {
	if zoneless(a.Columns[column]) {
		return instant + " AT TIME ZONE " + literal(a.Zone)
	}
	return instant
}

func zoneless(typed string) bool {
	return strings.HasPrefix(typed, "timestamp") && !strings.HasSuffix(typed, "with time zone")
}

// texted returns the expression that reads a column of text. Where the column
// can't be NULL its index serves what is read.
func (a *adoption) texted(column string) string {
	if !a.Has(column) {
		return "''::text"
	}
	return "coalesce(e." + column + "::text, '')"
}

// asked is like texted for columns that rows are searched by.
func (a *adoption) asked(column string) string { return "e." + column + "::text" }

// bytes returns the expression that reads the payload.
func (a *adoption) bytes() string {
	if a.Columns["payload"] == "bytea" {
		return "e.payload"
	}
	return "convert_to(e.payload::text, 'UTF8')"
}

func (a *adoption) headers() string {
	switch {
	case !a.Has("headers"):
		return "NULL::jsonb"
	case a.Columns["headers"] == "jsonb":
		return "e.headers"
	}
	return "%[1]s.settle_json(e.headers::text)"
}

// inEnvelope reads a field of an envelope in jsonb, so that it can be searched
// for; in text it is only known where the relay has the row in hand.
func (a *adoption) inEnvelope(field string) string {
	if a.Envelope() && a.Columns["payload"] == "jsonb" {
		return "e.payload ->> " + literal(field)
	}
	return "NULL::text"
}

func (a *adoption) topic() string {
	if len(a.TopicOf) == 0 {
		return literal(a.Topic) + "::text"
	}
	var b strings.Builder
	b.WriteString("CASE")
	names := make([]string, 0, len(a.TopicOf))
	for name := range a.TopicOf {
		names = append(names, name)
	}
	slices.Sort(names)
	columns := []string{"event_type"}
	if a.Has("aggregate_type") {
		columns = append(columns, "aggregate_type")
	}
	for _, column := range columns {
		for _, name := range names {
			fmt.Fprintf(&b, " WHEN e.%s = %s THEN %s", column, literal(name), literal(a.TopicOf[name]))
		}
	}
	return b.String() + " ELSE " + literal(a.Topic) + " END"
}

// notBefore holds for rows that wait only: of others the column tells of the past.
func (a *adoption) notBefore() string {
	if !a.Has("next_retry_time") {
		return "NULL::timestamptz"
	}
	return "CASE WHEN e.status IN (" + a.words(migrate.StatusPending, migrate.StatusRetry) + ") THEN " + a.zoned("next_retry_time") + " END"
}

func (a *adoption) readable() string {
	if !a.Project {
		return "true"
	}
	return "coalesce(e.status IN (" + a.words(migrate.StatusPending, migrate.StatusRetry) + "), false)"
}

// rowFunction is settle_outbox_row for the adopted table, and tableFunction
// settle_outbox_table. %[1]s is the schema of Settle's own tables.
const (
	rowFunction = `CREATE OR REPLACE FUNCTION %[1]s.settle_outbox_row() RETURNS TABLE (
  id bigint, event_id text, event_type text, aggregate_type text, aggregate_id text, aggregate_seq bigint, biz_key text, trace_id text, causation_id text,
  supersedes text, topic text, version integer, content_type text, occurred_at timestamptz, appended_at timestamptz, not_before timestamptz,
  headers jsonb, payload bytea, status_now text, readable boolean) LANGUAGE sql STABLE ROWS 1000000 AS $settle_body$
SELECT e.id, %[2]s, %[3]s, %[4]s, %[5]s, 0::bigint, %[6]s, %[7]s, %[8]s,
  NULL::text, %[9]s, 1, 'application/json'::text, NULL::timestamptz, %[10]s, %[11]s,
  %[12]s, %[13]s,
  CASE WHEN e.status IN (%[14]s) THEN 'PENDING' WHEN e.status IN (%[15]s) THEN 'RETRY' WHEN e.status IN (%[16]s) THEN 'IN_FLIGHT'
    WHEN e.status IN (%[17]s) THEN 'SENT' WHEN e.status IN (%[18]s) THEN 'DEAD' ELSE 'OTHER' END,
  %[19]s
FROM %[20]s e $settle_body$`

	tableFunction = `CREATE OR REPLACE FUNCTION %[1]s.settle_outbox_table() RETURNS regclass LANGUAGE sql STABLE AS $settle_body$ SELECT %[2]s::regclass $settle_body$`
)

// functions returns the statements that make the two functions in a schema.
func (a *adoption) functions(schema string) []string {
	own := pgx.Identifier{schema}.Sanitize()
	headers := a.headers()
	if strings.Contains(headers, "%") {
		headers = fmt.Sprintf(headers, own)
	}
	return []string{
		fmt.Sprintf(tableFunction, own, literal(a.table())),
		fmt.Sprintf(rowFunction, own, a.asked("event_id"), a.texted("event_type"), a.texted("aggregate_type"), a.texted("aggregate_id"),
			a.inEnvelope("bizKey"), a.inEnvelope("traceId"), a.inEnvelope("causationId"), a.topic(), a.zoned("created_at"), a.notBefore(), headers, a.bytes(),
			a.words(migrate.StatusPending), a.words(migrate.StatusRetry), a.words(migrate.StatusInFlight), a.words(migrate.StatusSent), a.words(migrate.StatusDead),
			a.readable(), a.table()),
	}
}
