package mysql

import (
	"strings"
)

// How queries name the outbox. Those that are about its rows name t_outbox_event:
// a table of our own, or a view that gives the rows of an adopted table its
// shape. Where an index or the table itself is meant, or only rows that are to
// be sent, they are made of these, and go through Store.reading.
const (
	// logRows are the rows that are read as a log, by primary key. A row that
	// another relay has sent or holds is not among them: to the log it is a hole.
	logRows = "t_outbox_event e FORCE INDEX (PRIMARY)"

	// logIDs is the table itself, by primary key: for its ids, whatever is in them.
	logIDs = "t_outbox_event FORCE INDEX (PRIMARY)"

	// "(e.event_id)" and "(v.event_id)" are the event id of a row where it is
	// compared with that in a table of our own: a server compares no columns of
	// two collations that both go by bytes.

	// logTable is its row in information_schema.tables.
	logTable = "table_schema = DATABASE() AND table_name = 't_outbox_event'"
)

// reading returns a query made of logRows, logIDs or logTable as this database
// takes it.
func (s *Store) reading(query string) string {
	if s.adopted == nil {
		return query
	}
	return s.adopted.names.Replace(query)
}

// newNames replaces what a query of our own outbox is made of. A view takes no
// hint, so settle_outbox_log holds it.
func newNames(a *adoption) *strings.Replacer {
	pairs := []string{
		logRows, "settle_outbox_log e",
		logIDs, a.table() + " FORCE INDEX (PRIMARY)",
		logTable, "table_schema = " + literal(a.Schema) + " AND table_name = " + literal(a.Name),
	}
	if collation := a.Collations["event_id"]; strings.HasPrefix(collation, "utf8mb4") && strings.HasSuffix(collation, "bin") && collation != a.is.exact {
		for _, id := range []string{"e.event_id", "v.event_id"} {
			pairs = append(pairs, "("+id+")", "(CONVERT("+id+" USING utf8mb4))")
		}
	}
	return strings.NewReplacer(pairs...)
}
