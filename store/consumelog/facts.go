package consumelog

import "time"

// Facts is what the database says, inside the transaction, about the items of
// one Apply.
type Facts struct {
	now   time.Time
	Floor time.Time // the group's dedup floor; zero: none
	// Logged holds the log rows of the items' events, also those that this
	// Apply has just inserted. An event that is not in it was inserted if
	// AllFresh, else it has no row.
	Logged   map[string]LogRow
	AllFresh bool
	// Retries holds the rows of the retry store named by items.
	Retries map[int64]RetryRow
	// Blockers holds, for each key with rows that hold it, more of the first
	// of them than the Apply can remove.
	Blockers map[string][]Blocker
	// Lineages holds the log rows of edited events, by root.
	Lineages map[string][]Member
	// Effects tells which event holds an effect key.
	Effects map[EffectKey]string
	// Seqs is how far each aggregate has come; Passed are the places above that
	// whose events people have discarded.
	Seqs   map[SeqKey]int64
	Passed map[SeqKey]map[int64]bool
}

// LogRow is a row of t_message_consume_log.
type LogRow struct {
	// No orders rows by when they were recorded: those of this Apply have the
	// numbers of their items, those before it lower ones.
	No        int64
	Status    string
	Processed time.Time
}

// RetryRow is a row of t_consume_retry.
type RetryRow struct {
	EventID  string
	Dead     bool
	Blocking bool
	Replays  int
	GapSince time.Time
	// Compensate is by whom and why it is given up; "": it is to be handled.
	Compensate string
}

// Blocker is a row of t_consume_retry that holds its key.
type Blocker struct {
	ID  int64
	Seq int64
}

// Member is an event of a lineage: one that was edited, or the first of them.
type Member struct {
	EventID string
	RetryID int64
}

// EffectKey names an effect within a group.
type EffectKey struct{ EventType, Key string }

// SeqKey names an aggregate within a group.
type SeqKey struct{ AggregateType, AggregateID string }

// SeqMove is how far the sequence of an aggregate moves.
type SeqMove struct {
	SeqKey
	Last int64
}

// NewFacts returns facts that know of nothing.
func NewFacts(now time.Time) Facts {
	return Facts{
		now: now, AllFresh: true, Logged: map[string]LogRow{}, Retries: map[int64]RetryRow{}, Blockers: map[string][]Blocker{},
		Lineages: map[string][]Member{}, Effects: map[EffectKey]string{}, Seqs: map[SeqKey]int64{}, Passed: map[SeqKey]map[int64]bool{},
	}
}
