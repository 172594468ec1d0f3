package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
)

// A key that waits for a retry holds its own rows up only, though the table's
// collation takes several keys for one; and people's questions and acts go by
// event ids, whatever collation those have.
func TestKeysThatDifferInCaseOrTrailingSpaceStayApartWhateverTheTablesCollation(t *testing.T) {
	for _, collation := range []string{"utf8mb4 COLLATE utf8mb4_general_ci", "utf8mb4 COLLATE utf8mb4_bin", "utf8mb3 COLLATE utf8mb3_bin", "latin1"} {
		t.Run(collation, func(t *testing.T) {
			t.Parallel()
			c := newClassic(t, strings.Replace(classicTable, "utf8mb4 COLLATE utf8mb4_general_ci", collation, 1))
			keys := []string{"a", "A", "a ", "á"}
			store := func(first int, status string) {
				for i, key := range keys {
					id := fmt.Sprintf("e-%d", first+i)
					c.exec(`INSERT INTO t_outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, status, next_retry_time) VALUES (?, 'order', ?, 'x', ?, ?, IF(? = 'RETRY', CURRENT_TIMESTAMP + INTERVAL 1 HOUR, CURRENT_TIMESTAMP))`,
						id, key, fmt.Sprintf(`{"eventId": %q, "eventType": "x", "aggregateId": %q}`, id, key), status, status)
				}
			}
			store(1, "PENDING")
			c.exec(`UPDATE t_outbox_event SET status = 'RETRY', next_retry_time = CURRENT_TIMESTAMP + INTERVAL 1 HOUR WHERE event_id = 'e-1'`)
			store(5, "PENDING")
			c.adopt(migrate.AdoptConfig{})
			r := c.relay(newMemory(t), relay.Config{})
			r.sends(6)
			c.becomes("PENDING 1, RETRY 1, SENT 6")
			if got := ids(r.broker.Log(settle.DefaultTopic)); got != "e-2 e-3 e-4 e-6 e-7 e-8" {
				t.Errorf("sent %s", got)
			}
			for i, m := range r.broker.Log(settle.DefaultTopic) {
				if want := keys[1+i%3]; m.Key != want {
					t.Errorf("%s has key %q, want %q", m.Event.ID, m.Key, want)
				}
			}
			g := r.store.Governance()
			if steps, err := g.Trail(t.Context(), "e-2"); err != nil || len(steps) != 2 {
				t.Errorf("the trail is %+v, %v", steps, err)
			}
			act := govern.Act{By: "ana", Reason: "a test"}
			if done, err := g.Resend(t.Context(), act, "e-3"); err != nil || done[0].MessageID != "e-3#1" {
				t.Errorf("resent %+v, %v", done, err)
			}
			r.sends(7)
			c.exec(`UPDATE t_outbox_event SET status = 'PENDING' WHERE event_id = 'e-2'`)
			r.sends(8)
			r.stop()
			if _, err := g.Restart(t.Context(), act, govern.FromEnd); err != nil {
				t.Error(err)
			}
		})
	}
}
