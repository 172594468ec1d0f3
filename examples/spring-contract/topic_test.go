package springcontract_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
)

// topic is where Settle publishes what the service has written.
const topic = "order-domain-event"

// message is a record as a consumer in any language sees it.
type message struct{ id, key, value string }

// readTopic returns all that the broker's log has.
func readTopic(t *testing.T, broker string) (all []message) {
	t.Helper()
	tap, err := dial.Tap(broker)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tap.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = tap.ReadAll(ctx, topic, func(r settle.Record) error {
		all = append(all, message{r.Headers[settle.HeaderEventID], r.Headers[settle.HeaderAggregateID], string(r.Raw)})
		return r.DecodeErr
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sentBySpring returns what the service's own relay has published.
func sentBySpring(t *testing.T, d database) (all []message) {
	t.Helper()
	rows, err := d.pool.Query(t.Context(), `SELECT event_id, message_key, value FROM t_sent_by_spring ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	var m message
	if _, err := pgx.ForEachRow(rows, []any{&m.id, &m.key, &m.value}, func() error { all = append(all, m); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// firstCopies returns the event ids of each key in the order of their first
// copies, and how many copies followed a first one.
func firstCopies(log []message) (keys map[string][]string, again int) {
	keys = map[string][]string{}
	seen := map[string]bool{}
	for _, m := range log {
		if seen[m.id] {
			again++
			continue
		}
		seen[m.id] = true
		keys[m.key] = append(keys[m.key], m.id)
	}
	return keys, again
}

// faults says what is wrong with a log: an event that is missing, too much, out
// of its key's order, or not the text that the table has.
func faults(log []message, want map[string][]string, table map[string]string) (wrong []string) {
	keys, _ := firstCopies(log)
	for key, ids := range want {
		if !slices.Equal(keys[key], ids) {
			wrong = append(wrong, fmt.Sprintf("key %s has the events %v, want %v", key, keys[key], ids))
		}
	}
	for key := range keys {
		if _, ok := want[key]; !ok {
			wrong = append(wrong, fmt.Sprintf("nobody has ordered %s", key))
		}
	}
	for _, m := range log {
		if m.value != table[m.id] {
			wrong = append(wrong, fmt.Sprintf("event %s is\n%s\nand in the table\n%s", m.id, m.value, table[m.id]))
		}
	}
	return wrong
}

// expect tells the first faults of a log.
func expect(t *testing.T, log []message, want map[string][]string, table map[string]string) {
	t.Helper()
	wrong := faults(log, want, table)
	for _, w := range wrong[:min(len(wrong), 5)] {
		t.Error(w)
	}
	if len(wrong) > 5 {
		t.Errorf("and %d more", len(wrong)-5)
	}
}

func TestALogIsSearchedForWhatIsMissingForeignSwappedOrChanged(t *testing.T) {
	want := map[string][]string{"k": {"a", "b"}}
	table := map[string]string{"a": "A", "b": "B"}
	a, b := message{"a", "k", "A"}, message{"b", "k", "B"}
	for name, c := range map[string]struct {
		log   []message
		sound bool
	}{
		"sound":     {[]message{a, b, a}, true},
		"missing":   {[]message{a}, false},
		"swapped":   {[]message{b, a}, false},
		"other key": {[]message{a, b, {"c", "j", ""}}, false},
		"changed":   {[]message{a, {"b", "k", "B "}}, false},
	} {
		if wrong := faults(c.log, want, table); (len(wrong) == 0) != c.sound {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}
