package relay

import (
	"context"
	"time"

	"github.com/settlemq/settle"
)

// Store is what the relay asks of a database: one outbox table, read as a log.
//
// Every method that writes takes the lease and returns settle.ErrFenced when
// another epoch has taken over; nothing is written then. Methods block for the
// database only, and are called by one goroutine of one relay at a time.
type Store interface {
	// Lead takes or renews the leadership of (table, lane). It returns a Lease
	// with Held false, and no error, while another owner's lease runs, while
	// lanes of the generation before have not ended (Early), and for ever when
	// the lane has (Ended). The first of a generation merges what those before
	// it have left; see Merge.
	Lead(ctx context.Context, owner string, lane int, ttl time.Duration) (Lease, error)
	// Resign gives the lease back after everything acknowledged is committed,
	// so that a successor starts at once and knows the end was clean. With
	// l.Ended nobody leads the lane again.
	Resign(ctx context.Context, l Lease) error
	// Load returns, in one snapshot, all that a new leader must know.
	Load(ctx context.Context, l Lease) (State, error)
	// Poll reads rows above a cursor united with all live holes, in one
	// statement, and the newest (epoch, checkpoint number).
	Poll(ctx context.Context, q PollQuery) (Page, error)
	// Commit writes a flush in one transaction, conditional on the lease.
	//
	// Crash here: before it, everything in it is found again by the next
	// leader and sent again; after it, nothing of it is.
	Commit(ctx context.Context, l Lease, f Flush) error
	// Side reads rows of a side table that may be sent now, of the lane's keys.
	Side(ctx context.Context, q SideQuery) (SidePage, error)
	// Owners tells whether any transaction that could still own a missing id
	// is open; see Evidence.
	Owners(ctx context.Context, before Evidence) (Evidence, error)
	// Sweep looks for rows of the lane whose ids were recorded as cold holes and
	// lists them in t_outbox_extra. It is bounded in time and returns how many it found.
	Sweep(ctx context.Context, l Lease, limit int) (int, error)
	// Retain deletes at most limit rows, and old checkpoints and renewals, that
	// were acknowledged everywhere, seen by every lane, are in no side table and
	// were appended before the given time. It returns how many rows went. A store
	// that drops many rows at once may exceed the limit by those, and counts them
	// when it has found that they go.
	Retain(ctx context.Context, l Lease, before time.Time, limit int) (int, error)
	// Controls returns pauses and skips; Page.Controls is their version.
	Controls(ctx context.Context) (Controls, error)
}

// Lease is the leadership of one outbox table and lane.
type Lease struct {
	Held  bool
	Owner string
	Lane  int
	Epoch int64
	// Expires is by this process's clock, counted from before the call.
	Expires time.Time
	// Deaths counts leaders in a row that ended without resigning, each within
	// LongLife times its lease after it took over; of one that lived longer only
	// its own end counts. What they have committed says nothing: an event that
	// kills its process lets other topics and keys go on before it does.
	Deaths int
	// Early means that the lane may not begin yet, Ended that it never will
	// again. Held is false with either, except in a Lease that is given back.
	Early, Ended bool
}

// LongLife is how many lease times a leader must have lived so that its end is
// not counted with those before it.
const LongLife = 10

// Reader is one cursor over the log. The reader with an empty Destination
// serves every destination that has no reader of its own. Rows of a topic are
// done when they are at or below the cursor of its reader and not open there.
type Reader struct {
	// Destination is a topic that fell behind and reads for itself, or "".
	Destination string `json:"destination,omitempty"`
	// Cursor is the highest id read; CursorEvent is the event id at it.
	Cursor      int64  `json:"cursor"`
	CursorEvent string `json:"cursor_event,omitempty"`
	// Open holds every id at or below Cursor that is neither acknowledged nor
	// recorded in a side table: live holes and what was in flight. Sorted.
	Open []int64 `json:"open,omitempty"`

	// Where there are routes, the reader with an empty Destination holds them and
	// the readers as they are, of destinations; those beside it are what a topic
	// has reached wherever its rows go. A store keeps the three for the relay.
	Routing []Routing `json:"routing,omitempty"`
	Routed  []Reader  `json:"routed,omitempty"`
	// Topics, of a reader in Routed, are those whose rows it may serve. Sorted.
	Topics []string `json:"topics,omitempty"`
}

// Checkpoint is insert-only; the newest is max(epoch), then max(number).
type Checkpoint struct {
	Number  int64
	Readers []Reader
	// Lowest unprojected id and so on are the store's own business.
}

// State is what Load returns.
type State struct {
	// Checkpoint with Number 0 means that there is none: start at the table's
	// beginning.
	Checkpoint Checkpoint
	// Parked keys of the lane, per destination.
	Parked []ParkedKey
	// ExtraPending tells whether t_outbox_extra has rows of the lane.
	ExtraPending bool
	// NextDelayed is the earliest due time in t_outbox_delayed; zero if none.
	NextDelayed time.Time
	// CursorEvents maps each reader's cursor to the event id found there now,
	// "" where the row is gone; MaxID is the highest id the table ever gave.
	CursorEvents map[int64]string
	MaxID        int64
	Controls     Controls
}

// ParkedKey is a key that is blocked at a destination.
type ParkedKey struct {
	Destination, Key string
	// Rows parked; the head is the row with the lowest ParkNo.
	Rows int
	// HeadDue is when the head may be tried; HeadDead is true when it is a dead
	// letter and the key waits for a person.
	HeadDue  time.Time
	HeadDead bool
}

// PollQuery asks for one page of the log.
type PollQuery struct {
	After int64
	// UpTo, when not 0, bounds the range: a reader that catches up with another.
	UpTo  int64
	Holes []int64
	// MaxRows and MaxBytes bound the page; what is cut off counts as unread. Of
	// rows of other lanes it may hold as many more as there are lanes.
	MaxRows, MaxBytes int
}

// Page is an answer of Poll.
type Page struct {
	Rows []Row
	// Complete is false when a bound cut the page: ids above the last row were
	// not looked at, and a hole above it is not confirmed.
	Complete bool
	// Epoch and Number of the newest checkpoint: a leader that reads anything
	// but its own last one forgets all and loads again.
	Epoch, Number int64
	// Controls is the version of the control rows.
	Controls int64
	// NotDurable means that some row read might vanish in a crash of the
	// database: commit a checkpoint before publishing.
	NotDurable bool
}

// Row is one event of the outbox table.
type Row struct {
	ID    int64
	Event *settle.Event
	// Defect says why the row can't become an event (broken JSON, no key): it
	// is parked as permanently failed.
	Defect string
	// MessageID is the broker's message id when it is not the event id.
	MessageID string
	// Source is the producer's name where the table tells it, in place of
	// Config.Name.
	Source string
	// Attempts made, for rows of side tables; of a suspect, tries alone that
	// nobody is known to have survived.
	Attempts int
	// Together is how many suspects the last recorded try of this one had; see
	// Attempt. 0 for one that has not been tried as a suspect.
	Together int
	// ParkNo orders parked rows of one key.
	ParkNo int64
	// Suspect rows were in doubt when a process died: their attempt is
	// recorded before each try.
	Suspect bool
	// Gone is true for a side-table row whose outbox row no longer exists.
	Gone bool
	// Elsewhere rows are of a key that another lane owns: nothing but the id
	// need be known. Event is nil, or has its id only: that of a page's last row
	// tells, as the event at the cursor, whether the table is still the same.
	Elsewhere bool
	// Destination is what the side table names, "" where it names none.
	Destination string
	// Owed are the destinations that a row of t_outbox_delayed or t_outbox_extra is
	// still to reach, where those are recorded; nil where Destination, or the routes,
	// say where it goes.
	Owed []string
}

// Side names a side table.
type Side int

// The side tables that hold what is sent outside the cursor.
const (
	SideParked Side = iota
	SideDelayed
	SideExtra
)

// SideQuery asks for rows of one side table.
type SideQuery struct {
	Side Side
	// Destination and Key: for SideParked, the key to drain from its head.
	Destination, Key string
	// Now: for SideDelayed, rows due at or before it.
	Now time.Time
	// Held: for SideDelayed and SideExtra, destinations whose rows are not to
	// be returned, because they can take nothing now. Those of t_outbox_extra
	// are topics. A delayed row that is owed to several is returned if one of them
	// is not held.
	Held []string
	// After, for SideExtra: rows with higher ids only.
	After    int64
	MaxRows  int
	MaxBytes int
}

// SidePage is an answer of Side, in the side table's order (park number, due
// time, id).
type SidePage struct {
	Rows []Row
	// More is true when a bound cut the page.
	More bool
	// Next is the due time of the first delayed row that was not returned,
	// those of held destinations left out; zero if there is none.
	Next time.Time
}

// Flush is everything the relay writes at one instant. It takes effect in the
// order of its fields: a row may be parked and turned into a dead letter in
// one flush.
type Flush struct {
	Checkpoint Checkpoint
	// Sent rows were acknowledged: their coordinates are kept, and their rows
	// in From are deleted.
	Sent []Sent
	// Park adds rows to parked keys, in this order.
	Park []Park
	// Attempts updates parked rows that failed again or are about to be tried.
	Attempts []Attempt
	// Dead turns parked rows into dead letters; their key stays blocked unless
	// Unblock.
	Dead []Death
	// Delay records rows that are not due yet.
	Delay []Delay
	// Cold are holes that no transaction can own any more (t_outbox_gap).
	Cold []int64
	// Skip are rows that a person asked to pass; they count as done.
	Skip []Skip
}

// Empty reports whether the flush says nothing but its checkpoint.
func (f *Flush) Empty() bool {
	return len(f.Sent)+len(f.Park)+len(f.Attempts)+len(f.Dead)+len(f.Delay)+len(f.Cold)+len(f.Skip) == 0
}

// Origin says where a row came from: the log, or a side table it leaves.
type Origin int

// Origins of a row.
const (
	FromLog Origin = iota
	FromParked
	FromDelayed
	FromExtra
)

// Share says, of a row whose event goes to several destinations, what becomes of
// it at one of them. It is nil for every other row.
type Share struct {
	// Owed are all that the row of t_outbox_delayed or t_outbox_extra was owed to
	// when it was read. It leaves that table for its destination only: the store
	// records, in the same transaction, which of them are left, and deletes the row
	// with the last. Nil for a row that is in neither.
	Owed []string
	// Pending is true while another destination is still to take the event from the
	// log. What says that all are done with it (its status in an adopted table, a
	// skip that was passed) is not written then, nor while a side table holds the
	// row for another.
	Pending bool
}

// Sent is an acknowledged row.
type Sent struct {
	ID          int64
	EventID     string
	Destination string
	From        Origin
	At          settle.Coordinates
	SentAt      time.Time
	Share       *Share
}

// Park is a row that joins a parked key at its end.
type Park struct {
	ID          int64
	EventID     string
	EventType   string
	Key         string
	Destination string
	From        Origin
	MessageID   string
	Attempts    int
	NextAt      time.Time
	// Class and Cause of the head's failure, ClassFollower for those behind.
	Class   settle.Class
	Cause   string
	Suspect bool
	Share   *Share
}

// Attempt updates a parked row.
type Attempt struct {
	ID          int64
	Destination string
	Attempts    int
	NextAt      time.Time
	Class       settle.Class
	Cause       string
	// Together is how many rows are tried at once, this one included; 0 where
	// the row is no suspect.
	Together int
	// Suspect is whether the row is one from now on: set before a try that may
	// kill the process, cleared by an answer.
	Suspect bool
}

// Death turns a parked row into a dead letter: one parked earlier, or in the
// same flush (From is then FromParked too).
type Death struct {
	ID          int64
	Destination string
	Key         string
	From        Origin
	Attempts    int
	Class       settle.Class
	Cause       string
	// Unblock removes the row from the parked key, so that those behind it go
	// on (policy pass). Otherwise it stays as the head that blocks the key.
	Unblock bool
}

// Delay is a row that waits for its time. It leaves the side table named by
// From. One with a Share joins the destinations that the delayed row is owed to.
type Delay struct {
	ID          int64
	EventID     string
	Destination string
	Key         string
	From        Origin
	Due         time.Time
	Share       *Share
}

// Skip is a row passed at a person's request.
type Skip struct {
	ID          int64
	EventID     string
	Destination string
	From        Origin
	Share       *Share
}

// Evidence is what a database knows of transactions that may own a missing id.
type Evidence struct {
	// Known is false where owners can't be asked; grace alone counts then.
	Known bool
	// Token names the open transactions at the time of the call; passing the
	// evidence to the next call tells whether any of them is still open.
	Token string
	// Clear is true when none of the transactions named by before.Token is
	// open any more (always true on SQLite: one writer, commit order).
	Clear bool
}

// Controls are pauses and skips in force.
type Controls struct {
	settle.Controls
	// Skips are event ids to pass.
	Skips []string
	// Parked are all parked keys of the lane as they are now: a person may have
	// made a dead head due again, or discarded it.
	Parked []ParkedKey
	// Divided means that a generation of lanes follows the one of this lane: it
	// reads up to the id Barrier, unless it is there already, and ends. Barrier is
	// the highest id that any lane had read when the division was ordered, so that
	// they end level; what they have not done is handed over by name.
	Divided bool
	Barrier int64
}
