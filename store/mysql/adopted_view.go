package mysql

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/settlemq/settle/store/migrate"
)

// words of some kinds of status, as a list for IN. It is never empty: that
// would be no SQL.
func (a *adoption) words(kinds ...string) string {
	var all []string
	for _, kind := range kinds {
		for _, word := range a.Status[kind] {
			all = append(all, a.wordLiteral(word))
		}
	}
	if len(all) == 0 {
		return "NULL"
	}
	return strings.Join(all, ", ")
}

// wordLiteral is a word of the status: a number where the column is one, which
// its index serves then.
func (a *adoption) wordLiteral(word string) string {
	if numeric(a.Columns["status"]) {
		return word
	}
	return literal(word)
}

func numeric(typed string) bool {
	base := baseType(typed)
	return slices.Contains([]string{"tinyint", "smallint", "mediumint", "int", "bigint"}, base)
}

// baseType is a column's type without its width and attributes.
func baseType(typed string) string {
	base, _, _ := strings.Cut(typed, " ")
	base, _, _ = strings.Cut(base, "(")
	return base
}

// zoned returns the expression that reads a column of time as UTC. A TIMESTAMP
// is that already, because sessions of the store are in UTC.
func (a *adoption) zoned(column string) string {
	switch {
	case !a.Has(column):
		return "CAST(NULL AS DATETIME(6))"
	case zoneless(a.Columns[column]) && a.Zone != inUTC:
		return "CONVERT_TZ(e." + column + ", " + literal(a.Zone) + ", '+00:00')"
	}
	return "e." + column
}

// stored returns the expression that writes an instant, which is in UTC, into a
// column of time.
func (a *adoption) stored(column, instant string) string {
	if zoneless(a.Columns[column]) && a.Zone != inUTC {
		return "CONVERT_TZ(" + instant + ", '+00:00', " + literal(a.Zone) + ")"
	}
	return instant
}

// inUTC is the zone of which nothing need be converted.
const inUTC = "+00:00"

func zoneless(typed string) bool { return baseType(typed) == "datetime" }

// texted returns the expression that reads a column of text. Its index serves
// what is read, unless its characters must be converted.
func (a *adoption) texted(column string) string {
	if !a.Has(column) {
		return "''"
	}
	return a.unicode(column)
}

// unicode reads a column of text in UTF-8. Nothing is converted where the bytes
// are the same.
func (a *adoption) unicode(column string) string {
	switch a.Charsets[column] {
	case "utf8mb4", "utf8mb3", "utf8", "ascii":
		return "e." + column
	case "":
		base := baseType(a.Columns[column])
		if strings.HasSuffix(base, "blob") || strings.HasSuffix(base, "binary") {
			return "e." + column
		}
		if base != "json" { // a number, for instance
			return "CAST(e." + column + " AS CHAR(64) CHARACTER SET utf8mb4)"
		}
	}
	return "CONVERT(e." + column + " USING utf8mb4)"
}

// exact is an expression of text that is compared byte by byte.
func (a *adoption) exact(expression string) string {
	return "CONVERT(" + expression + " USING utf8mb4) COLLATE " + a.is.exact
}

// inEnvelope reads a field of an envelope in a column of JSON, so that it can be
// searched for; in text it is only known where the relay has the row in hand.
func (a *adoption) inEnvelope(field string) string {
	if !a.Envelope() || !a.ValidJSON {
		return "NULL"
	}
	value := "JSON_EXTRACT(e.payload, '$." + field + "')"
	return "CASE JSON_TYPE(" + value + ") WHEN 'STRING' THEN JSON_UNQUOTE(" + value + ") END"
}

func (a *adoption) topic() string {
	if len(a.TopicOf) == 0 {
		return a.exact(literal(a.Topic))
	}
	var b strings.Builder
	b.WriteString("CASE")
	columns := []string{"event_type"}
	if a.Has("aggregate_type") {
		columns = append(columns, "aggregate_type")
	}
	for _, column := range columns {
		for _, name := range slices.Sorted(maps.Keys(a.TopicOf)) {
			fmt.Fprintf(&b, " WHEN %s = %s THEN %s", a.exact("e."+column), literal(name), a.exact(literal(a.TopicOf[name])))
		}
	}
	return b.String() + " ELSE " + a.exact(literal(a.Topic)) + " END"
}

// notBefore holds for rows that wait only: of others the column tells of the past.
func (a *adoption) notBefore() string {
	if !a.Has("next_retry_time") {
		return "CAST(NULL AS DATETIME(6))"
	}
	return "CASE WHEN e.status IN (" + a.words(migrate.StatusPending, migrate.StatusRetry) + ") THEN " + a.zoned("next_retry_time") + " END"
}

// rowView is t_outbox_event for the adopted table: all its rows. logView is what
// the relay reads as a log: those that wait, where their status says so. Both
// are put in the place of the query (MERGE), so indexes serve. The rights are
// those of whoever reads.
const (
	rowView = `CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY INVOKER VIEW %[1]s.t_outbox_event AS
SELECT e.id AS id, %[3]s AS event_id, %[4]s AS event_type, %[5]s AS aggregate_type, %[6]s AS aggregate_id, 0 AS aggregate_seq, %[7]s AS biz_key, %[8]s AS trace_id,
 %[9]s AS causation_id, NULL AS supersedes, %[10]s AS topic, 1 AS version, 'application/json' AS content_type, CAST(NULL AS DATETIME(6)) AS occurred_at,
 %[11]s AS appended_at, %[12]s AS not_before, %[13]s AS headers, %[14]s AS payload,
 CASE WHEN e.status IN (%[15]s) THEN 'PENDING' WHEN e.status IN (%[16]s) THEN 'RETRY' WHEN e.status IN (%[17]s) THEN 'IN_FLIGHT'
  WHEN e.status IN (%[18]s) THEN 'SENT' WHEN e.status IN (%[19]s) THEN 'DEAD' ELSE 'OTHER' END AS status_now
FROM %[2]s e`

	logView = `CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY INVOKER VIEW %[1]s.settle_outbox_log AS
SELECT e.id AS id, %[3]s AS event_id, %[4]s AS event_type, %[5]s AS aggregate_type, %[6]s AS aggregate_id, 0 AS aggregate_seq, NULL AS biz_key, NULL AS trace_id,
 NULL AS causation_id, NULL AS supersedes, %[7]s AS topic, 1 AS version, 'application/json' AS content_type, CAST(NULL AS DATETIME(6)) AS occurred_at,
 %[8]s AS appended_at, %[9]s AS not_before, %[10]s AS headers, %[11]s AS payload
FROM %[2]s e FORCE INDEX (PRIMARY)%[12]s`
)

// views returns the statements that make the two views in a database.
func (a *adoption) views(database string) []string {
	headers := "NULL"
	if a.Has("headers") {
		headers = a.unicode("headers")
	}
	readable := ""
	if a.Project {
		readable = " WHERE e.status IN (" + a.words(migrate.StatusPending, migrate.StatusRetry) + ")"
	}
	own, table := quoted(database), a.table()
	id, typed, kind, key, topic := a.unicode("event_id"), a.texted("event_type"), a.texted("aggregate_type"), a.texted("aggregate_id"), a.topic()
	appended, waits, payload := a.zoned("created_at"), a.notBefore(), a.unicode("payload")
	return []string{
		fmt.Sprintf(rowView, own, table, id, typed, kind, key, a.inEnvelope("bizKey"), a.inEnvelope("traceId"), a.inEnvelope("causationId"), topic,
			appended, waits, headers, payload, a.words(migrate.StatusPending), a.words(migrate.StatusRetry), a.words(migrate.StatusInFlight),
			a.words(migrate.StatusSent), a.words(migrate.StatusDead)),
		fmt.Sprintf(logView, own, table, id, typed, kind, key, topic, appended, waits, headers, payload, readable),
	}
}
