package adopt

import (
	"slices"
	"strings"

	"github.com/settlemq/settle/store/migrate"
)

// Outbox is what was decided about an outbox of another owner, as
// settle_adoption keeps it.
type Outbox struct {
	// Schema and Name of the table; where a server has databases only, Schema is
	// the table's.
	Schema string `json:"schema"`
	Name   string `json:"name"`
	// Columns are the types of those that are read or written, as they were.
	Columns map[string]string   `json:"columns"`
	Zone    string              `json:"zone"`
	Payload string              `json:"payload"`
	Topic   string              `json:"topic"`
	TopicOf map[string]string   `json:"topic_of"`
	Status  map[string][]string `json:"status"`
	Project bool                `json:"project"`
	// StatusIndex is whether rows that wait can be found by their status.
	StatusIndex bool `json:"status_index"`
}

// Has reports whether the table had a column when it was looked at.
func (o *Outbox) Has(column string) bool { return o.Columns[column] != "" }

// Envelope reports whether payloads are whole envelopes.
func (o *Outbox) Envelope() bool { return o.Payload == migrate.PayloadEnvelope }

// KindOf is what a word of its status means; empty for nothing that is known.
func (o *Outbox) KindOf(word string) string {
	for _, kind := range kinds() {
		if slices.Contains(o.Status[kind], word) {
			return kind
		}
	}
	return ""
}

// kinds of status, in the order in which words are looked for.
func kinds() []string {
	return []string{migrate.StatusPending, migrate.StatusRetry, migrate.StatusInFlight, migrate.StatusSent, migrate.StatusDead}
}

// Uncounted says, of the table under its plain name, which rows a restart
// neither counts nor sends; nothing where the status is not looked at.
func (o *Outbox) Uncounted(name string) string {
	if !o.Project {
		return ""
	}
	waits := slices.Concat(o.Status[migrate.StatusPending], o.Status[migrate.StatusRetry])
	return "rows of " + name + " that its status marks as " + strings.Join(o.Status[migrate.StatusSent], ", ") +
		", or as anything else than " + strings.Join(waits, ", ") + ": no choice sends them"
}
