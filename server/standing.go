package server

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/settlemq/settle/relay"
)

// State of a source, or of the embedded broker, in this process.
type State string

// The states.
const (
	// StateStarting: nothing is known yet.
	StateStarting State = "starting"
	// StateLeading: this process sends the source's events.
	StateLeading State = "leading"
	// StateServing: this process serves the embedded broker.
	StateServing State = "serving"
	// StateStandingBy: another process does, and this one takes over when that
	// ends.
	StateStandingBy State = "standing_by"
	// StateUnreachable: the database or the broker does not answer, or refuses;
	// it is tried again for ever.
	StateUnreachable State = "unreachable"
	// StateRefused: the database may lose what it has committed, so nothing of
	// it is relayed; it is looked at again for ever.
	StateRefused State = "refused"
	// StateEnded: the server has ended.
	StateEnded State = "ended"
)

// reachable reports whether all is as it should be.
func (s State) reachable() bool {
	return s == StateLeading || s == StateServing || s == StateStandingBy
}

// Standing is how a source, or the embedded broker, stands in this process.
type Standing struct {
	State State `json:"state"`
	// Since when it is in this state.
	Since time.Time `json:"since"`
	// What does not answer: database or broker; and why. Of a source that is
	// refused, What is durability, and Cause says what mends it.
	What  string `json:"what,omitempty"`
	Cause string `json:"cause,omitempty"`
}

// SourceStanding is how a source stands in this process, and what is to be
// sent.
type SourceStanding struct {
	Standing
	// Backlog is what the outbox held when it was last asked, at Asked; nil
	// before.
	Backlog *Backlog `json:"backlog,omitempty"`
	// Published counts the events that this process has sent since it started.
	Published int64 `json:"published"`
	// Lanes are those of an outbox that is read by several relays at once, as
	// this process knows them; it stands by for those that it does not lead.
	Lanes []Lane `json:"lanes,omitempty"`
	// Bridges are those of consumer groups that are not ours, by group.
	Bridges map[string]BridgeStanding `json:"bridges,omitempty"`
	// Warnings say what is unsafe, and what mends it: what may lose committed
	// events, and another relay that is at work on the same table.
	Warnings []string `json:"warnings,omitempty"`

	// contested: another relay is at work, and the source is not ready with it.
	contested bool
}

// Lane is a relay.Lane as it is shown.
type Lane struct {
	relay.Lane
	Leading bool `json:"leading"`
	// Cursor is the highest id that this process has read for it.
	Cursor int64 `json:"cursor,omitempty"`
}

// Backlog is a relay.Backlog as it is shown.
type Backlog struct {
	Pending int `json:"pending"`
	Parked  int `json:"parked"`
	// More is true when only the first 10,000 were counted.
	More bool `json:"more,omitempty"`
	// OldestAge is in seconds; 0 when there is none.
	OldestAge float64   `json:"oldest_age_seconds"`
	Asked     time.Time `json:"asked_at"`
}

// board keeps a standing and says once what has changed.
type board struct {
	log *slog.Logger

	mu  sync.Mutex
	now SourceStanding
	// unsafe, brokers and other are what the warnings are made of; "" if no other
	// relay is at work. brokers are of a source that has several.
	unsafe  []string
	brokers []string
	other   string
}

func newBoard(log *slog.Logger) *board {
	return &board{log: log, now: SourceStanding{Standing: Standing{State: StateStarting, Since: time.Now()}}}
}

func (b *board) read() SourceStanding {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

// become notes a state. what and err say why it is unreachable.
func (b *board) become(state State, what string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.now
	cause := ""
	if err != nil {
		cause = err.Error()
	}
	b.now.State, b.now.What, b.now.Cause = state, what, cause
	if last.State == state && last.What == what {
		return
	}
	b.now.Since = time.Now()
	words := map[State]string{
		StateLeading: "leading", StateServing: "serving", StateStandingBy: "standing by",
		StateUnreachable: what + " unreachable; trying again", StateEnded: "ended",
		StateRefused: "not relayed: the database may lose what it has committed; looking again",
	}
	attrs := []any{"state", string(state), "was", string(last.State), "after", b.now.Since.Sub(last.Since).Round(time.Millisecond)}
	if err != nil {
		b.log.Warn(words[state], append(attrs, "cause", cause)...)
		return
	}
	b.log.Info(words[state], attrs...)
}

// count notes what an outbox holds.
func (b *board) count(of relay.Backlog) {
	now := time.Now()
	shown := &Backlog{Pending: of.Pending, Parked: of.Parked, More: of.More, Asked: now}
	if !of.Oldest.IsZero() {
		shown.OldestAge = max(0, now.Sub(of.Oldest).Seconds())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now.Backlog = shown
}

// warn notes what is unsafe, and says once what is new of it.
func (b *board) warn(of []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range of {
		if !slices.Contains(b.unsafe, text) {
			b.log.Warn("committed events may be lost", "cause", text)
		}
	}
	b.unsafe = of
	b.warned()
}

// warnBrokers notes what several brokers may lose, and says once what is new of it.
func (b *board) warnBrokers(of []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range of {
		if !slices.Contains(b.brokers, text) {
			b.log.Warn("acknowledged events may be lost", "cause", text)
		}
	}
	b.brokers = of
	b.warned()
}

// contest notes what was seen of another relay on the same table, and says once
// that it is at work, and once that it is no more.
func (b *board) contest(of relay.OtherRelay, ready bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.other != ""
	b.other = warningOf(of)
	b.now.contested = of.AtWork && !ready
	b.warned()
	switch {
	case of.AtWork && !was:
		b.log.Warn("another relay is at work on this outbox: events go out twice, and out of order", "rows", of.Rows, "last_id", of.LastID, "seen_at", of.SeenAt, "to_mend", stopOther)
	case !of.AtWork && was:
		b.log.Info("of the other relay nothing was seen for a while", "rows", of.Rows, "last_id", of.LastID, "seen_at", of.SeenAt)
	}
}

const stopOther = "stop it; settle doctor names the sessions that may be its"

// warningOf is empty where no other relay is at work.
func warningOf(of relay.OtherRelay) string {
	if !of.AtWork {
		return ""
	}
	return fmt.Sprintf("old_relay: another relay has sent or taken %d rows of this outbox, and was at work at %s (id %d): events go out twice, and out of order; to mend it: %s",
		of.Rows, of.SeenAt.UTC().Format(time.RFC3339), of.LastID, stopOther)
}

// warned makes the warnings anew; b.mu is held.
func (b *board) warned() {
	b.now.Warnings = slices.Concat(b.unsafe, b.brokers)
	if b.other != "" {
		b.now.Warnings = append(b.now.Warnings, b.other)
	}
}

// lanes notes them, unless the outbox has one lane only.
func (b *board) lanes(of []relay.LaneStats) {
	var shown []Lane
	for _, l := range of {
		if len(of) > 1 || l.Of > 1 {
			shown = append(shown, Lane{l.Lane, l.Leading, l.Cursor})
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now.Lanes = shown
}

func (b *board) published(total int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now.Published = total
}
