package govern

import (
	"context"
	"errors"
	"time"
)

// ActionRestart is the audit action of a restart; its target is "from id N".
const ActionRestart = "outbox.restart"

// FromEnd, in place of an id, starts behind all that the table has given.
const FromEnd int64 = -1

// ErrLeads means that a relay leads the outbox, and its position is not to be
// written by anybody else.
var ErrLeads = errors.New("a relay leads this outbox")

// ErrNotGiven means that no row has had, or could have had, the id to start at.
var ErrNotGiven = errors.New("the id is not given yet")

// Standing is where the relay of a service has come to, beside its outbox as it
// is now.
type Standing struct {
	// OtherLife says why the position is not of the table as it is; empty when
	// it is. The relay stops then and waits for a restart.
	OtherLife string `json:"other_life,omitempty"`
	// Epoch and Number of the newest checkpoint; 0 when no relay was here.
	Epoch   int64      `json:"epoch"`
	Number  int64      `json:"number"`
	Readers []ReaderAt `json:"readers"`
	// Rows there are, with the lowest and highest of their ids, 0 of none; Given
	// is the highest id that the table has ever given.
	Rows    int64 `json:"rows"`
	Lowest  int64 `json:"lowest"`
	Highest int64 `json:"highest"`
	Given   int64 `json:"given"`
	// Uncounted says which rows are in none of these counts; empty for none.
	Uncounted string `json:"uncounted,omitempty"`
	// Parked, Delayed and Listed rows wait beside the log, by their ids.
	Parked  int64 `json:"parked"`
	Delayed int64 `json:"delayed"`
	Listed  int64 `json:"listed"`
	// Leader leads until Until, by the database's clock; empty when nobody does.
	Leader string    `json:"leader,omitempty"`
	Until  time.Time `json:"until,omitzero"`
}

// ReaderAt is the cursor of one reader of the relay.
type ReaderAt struct {
	// Destination is a topic that reads for itself, or empty.
	Destination string `json:"destination,omitempty"`
	// Cursor is the id that it had read up to, CursorEvent the event there then,
	// and Now the event there now, empty when the row is gone.
	Cursor      int64  `json:"cursor"`
	CursorEvent string `json:"cursor_event,omitempty"`
	Now         string `json:"event_now,omitempty"`
	// Below counts rows at or below the cursor, Above those above it.
	Below int64 `json:"rows_below"`
	Above int64 `json:"rows_above"`
}

// Restart is what a restart has done.
type Restart struct {
	Epoch int64 `json:"epoch"`
	// From is the id that the relay reads from.
	From int64 `json:"from"`
	// Sent rows, from there on, are sent, whether they were before or not; Passed
	// rows, before it, count as sent.
	Sent   int64 `json:"rows_sent"`
	Passed int64 `json:"rows_passed"`
	// Kept rows waited beside the log, are before From, and are sent as they
	// would have been: their events were never sent.
	Kept int64 `json:"rows_kept"`
	// Lost events waited beside the log and have no row any more. Each is a dead
	// letter now.
	Lost int64 `json:"events_lost"`
}

// Restarter decides where the relay of one service goes on after its table was
// restored, emptied or made anew.
type Restarter interface {
	// Standing returns what a person must know to decide. It counts rows, which
	// takes a while on a large table.
	Standing(ctx context.Context) (Standing, error)
	// Restart writes a new position under a new epoch, so that whoever led
	// before is fenced: rows with the id from and above are sent, all before
	// count as sent; FromEnd sends what is appended from now on. What waits beside
	// the log is matched with the table by event id. It is audited in the same
	// transaction; a.Reason is required. It is refused with ErrLeads while a
	// lease runs, and with ErrNotGiven for an id above the next one.
	Restart(ctx context.Context, a Act, from int64) (Restart, error)
}
