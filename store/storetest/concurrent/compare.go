package concurrent

import (
	"database/sql"
	"testing"

	"github.com/settlemq/settle"
)

const eventIDs = `SELECT event_id FROM t_outbox_event`

// Compare returns the ids of events that were published and are not in the
// outbox, and of those that are in it and were never published.
func Compare(t *testing.T, db *sql.DB, log []settle.Record) (vanished, missing []string) {
	t.Helper()
	all, err := texts(t.Context(), db, eventIDs)
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, id := range all {
		there[id] = true
	}
	published := map[string]bool{}
	for _, r := range log {
		if published[r.Event.ID] = true; !there[r.Event.ID] {
			vanished = append(vanished, r.Event.ID)
		}
	}
	for id := range there {
		if !published[id] {
			missing = append(missing, id)
		}
	}
	return vanished, missing
}
