package govern

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// ActionResend is the audit action of a resend; its target is the event id.
const ActionResend = "outbox.resend"

// Resent is what became of one event of a resend.
type Resent struct {
	EventID string `json:"event_id"`
	// Result is done or refused.
	Result string `json:"result"`
	Why    string `json:"why,omitempty"`
	// MessageID is what the broker gets it under: eventId#n. It stays the same
	// when the relay tries again.
	MessageID string `json:"message_id,omitempty"`
}

// Resender sends events of one service's outbox again.
type Resender interface {
	// Resend lists SENT events for the relay, which sends each once more under a
	// message id of its own, within about a second, and counts and audits it in
	// the same transaction. One outcome per event id: what is not SENT is
	// refused. a.Reason is required. Consumers of Settle's know the event by its
	// id and apply it once all the same.
	Resend(ctx context.Context, a Act, eventIDs ...string) ([]Resent, error)
}

// Outgoing is what a service's outbox knows of an event that somebody wants to
// be sent again.
type Outgoing struct {
	// Service is its name, for the commands in an answer.
	Service string
	EventID string
	// Status is what a person is told of it; empty when it has no row.
	Status string
	// Asked: a resend was asked for and has not left yet.
	Asked bool
	// Parked: it waits at the relay behind another event of its key, or for a
	// retry; Due is the time that it waits for, if it does.
	Parked bool
	Due    time.Time
	// Letter is the dead letter of the relay that it has or had; 0 for none.
	Letter int64
	// Resends counts those asked for before.
	Resends int64
	// Lowest is the lowest id that the outbox has, or would give next when it is
	// empty, Oldest when the event at it was appended; zero when empty.
	Lowest int64
	Oldest time.Time
}

// Next returns the message id of the next resend, or why there may be none.
func (o Outgoing) Next() (messageID, why string) {
	letter := o.Service + ":" + strconv.FormatInt(o.Letter, 10)
	switch {
	case o.Status == "SENT":
		return o.EventID + "#" + strconv.FormatInt(o.Resends+1, 10), ""
	case o.Status == "":
		return "", o.absent()
	case o.Status == "DEAD":
		return "", fmt.Sprintf("it was never sent, it is dead letter %s: cure the cause, then settle dead replay %s", letter, letter)
	case o.Status == "DISCARDED":
		return "", "it was given up and never sent: append an event that supersedes it"
	case o.Status == "RETRY":
		return "", "it is not sent yet: the broker refused it, and the relay tries again by itself; settle trail " + o.EventID + " shows when and why"
	case o.Parked:
		return "", "it is not sent yet: it waits behind another event of its key and follows it by itself; settle trail " + o.EventID + " shows more"
	case o.Asked:
		return "", "it is being sent again already: one resend was asked for and has not left yet"
	case !o.Due.IsZero():
		return "", "it is not sent yet: its time comes at " + o.Due.UTC().Format(time.RFC3339) + ", and the relay sends it then"
	}
	return "", "it is not sent yet: the relay sends it by itself; if it does not, settle doctor says what is wrong"
}

// absent says what can be known of an event without a row. An id of version 7
// tells when it was made.
func (o Outgoing) absent() string {
	anew := "append the event anew, with supersedes set to this id"
	born, ok := bornAt(o.EventID)
	switch {
	case o.Lowest <= 1:
		return "the outbox has no such event and has deleted none; settle trail " + o.EventID + " shows who knows it"
	case o.Oldest.IsZero():
		return "its row is gone: every event was deleted once it was sent and old enough (keep_for); " + anew
	case ok && born.Before(o.Oldest):
		return "its row is gone: events from before " + o.Oldest.UTC().Format(time.RFC3339) + " were deleted once they were sent and old enough (keep_for); " + anew
	case ok:
		return "the outbox has no such event, though it keeps all from " + o.Oldest.UTC().Format(time.RFC3339) + " on; settle trail " + o.EventID + " shows who knows it"
	}
	return "the outbox has no such event; if it is from before " + o.Oldest.UTC().Format(time.RFC3339) + ", it was deleted once it was sent and old enough (keep_for): " + anew
}

// bornAt reads the time in a UUID of version 7.
func bornAt(id string) (time.Time, bool) {
	if len(id) != 36 || id[8] != '-' || id[14] != '7' {
		return time.Time{}, false
	}
	ms, err := strconv.ParseInt(id[:8]+id[9:13], 16, 64)
	return time.UnixMilli(ms), err == nil
}
