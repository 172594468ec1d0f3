package migrate

import (
	"errors"
	"time"
)

// Kinds of status that a row of an adopted outbox can have.
const (
	StatusPending  = "pending"
	StatusRetry    = "retry"
	StatusInFlight = "in-flight"
	StatusSent     = "sent"
	StatusDead     = "dead"
)

// Kinds of status that a row of a shared consume log can have.
const (
	ConsumeSuccess    = "success"
	ConsumeProcessing = "processing"
	ConsumeFailed     = "failed"
)

// What an adopted table keeps as payload.
const (
	PayloadEnvelope = "envelope"
	PayloadBody     = "body"
)

// ErrNotAdoptable means that a table can't be adopted as it stands, or not with
// what was said of it. Nothing was changed.
var ErrNotAdoptable = errors.New("the table was left as it is")

// AdoptConfig says how an outbox that was there before Settle is to be read. Of
// one that is adopted already, what is empty stays as it is.
type AdoptConfig struct {
	// Table with its schema. Defaults to public.t_outbox_event.
	Table string
	// ConsumeLog is the consume log that foreign consumers share, with its
	// schema. Defaults to public.t_message_consume_log where that has the
	// classic columns. Without an outbox to adopt it is adopted alone.
	ConsumeLog string
	// ConsumeStatus gives, by kind, the words of that log; the first is the one
	// written. Defaults to usual words that are found in it.
	ConsumeStatus map[string][]string
	// Zone of columns of time without one, as the database names zones.
	// Defaults to that of the session.
	Zone string
	// Topic of events for which TopicOf has none. Defaults to settle.DefaultTopic.
	Topic string
	// TopicOf gives topics by event type or, after those, by aggregate type.
	// Defaults to none.
	TopicOf map[string]string
	// Status gives, by kind, the words that the table has for it; the first is
	// the one written. Defaults to the usual words that are found in it.
	Status map[string][]string
	// Payload is PayloadEnvelope or PayloadBody. Defaults to what the newest
	// rows look like.
	Payload string
	// Project is whether what becomes of a row is written into its status.
	// Defaults to true.
	Project *bool
	// Again begins anew with a table that is adopted already: another relay has
	// worked on it since, and what waits now is listed. Defaults to false.
	Again bool
	// Wait bounds the wait for transactions that hold the table, where its
	// status has no index. Defaults to 60 s.
	Wait time.Duration
}

// AdoptPlan is what was found of a table, and what adopting it will do.
type AdoptPlan struct {
	// Table is empty where there is only a consume log: the outbox is Settle's own.
	Table string `json:"table"`
	// ConsumeLog is the consume log that is shared with foreign consumers; empty
	// for none. ConsumeStatuses are the words in its newest rows.
	ConsumeLog      string        `json:"consume_log,omitempty"`
	ConsumeStatuses []AdoptStatus `json:"consume_statuses,omitempty"`
	// Schema is where Settle's own tables are, or will be: a schema, or a
	// database where the server has no schemas. Place is what people call it.
	Schema string `json:"schema"`
	Place  string `json:"-"`
	// Reach is how the URL of it differs from that of the table.
	Reach string `json:"-"`
	// Adopted is true of one that is adopted already; Changes are then what the
	// plan would change.
	Adopted bool     `json:"adopted"`
	Changes []string `json:"changes,omitempty"`

	Columns  []AdoptColumn `json:"columns"`
	Zone     string        `json:"zone"`
	Payload  string        `json:"payload"`
	Topics   []string      `json:"topics"`
	Project  bool          `json:"project"`
	Statuses []AdoptStatus `json:"statuses"`
	// StatusIndex is false where rows that come late can't be found.
	StatusIndex bool   `json:"status_index"`
	IDs         string `json:"ids"`
	// HighestID is the last id that is not read as a log.
	HighestID int64 `json:"highest_id"`
	// Send are rows that will be sent; of them, Delayed at their time and Retry
	// when their retry is due. Leave are rows that stay as they are. Each count
	// ends at CountLimit.
	Send    int64 `json:"send"`
	Delayed int64 `json:"delayed"`
	Retry   int64 `json:"retry"`
	Leave   int64 `json:"leave"`
	// Holders are open transactions that have written to the table.
	Holders []string `json:"holders,omitempty"`
	// Notes are what a person should know; Refusals keep it from being done.
	Notes    []string `json:"notes,omitempty"`
	Refusals []string `json:"refusals,omitempty"`
}

// CountLimit is where counting the rows of one status ends.
const CountLimit = 1_000_000

// AdoptColumn is a column of the table and how it is read.
type AdoptColumn struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Read string `json:"read"`
}

// AdoptStatus is a word that stands in the table's status.
type AdoptStatus struct {
	Word string `json:"word"`
	// Kind is empty for a word that means nothing to Settle.
	Kind string `json:"kind"`
	Rows int64  `json:"rows"`
}
