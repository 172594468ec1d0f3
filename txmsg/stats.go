package txmsg

// Stats is what a sender has done in this process, and how it stands.
type Stats struct {
	// Half messages are in hand: between the call and its end.
	Half int64
	// Sends that ended, by how: with a record (Committed; Confirmed of them by the
	// broker before Send returned), without one (RolledBack), not begun (NotSent),
	// not known (InDoubt).
	Committed, Confirmed, RolledBack, NotSent, InDoubt int64

	// Checks that came. Each is one of what follows, or waits.
	Checks int64
	// CheckedCommit, CheckedRollback and CheckedUnknown were answered so. Foreign
	// ones were of another database or program, and answered UNKNOWN.
	CheckedCommit, CheckedRollback, CheckedUnknown, Foreign int64
	// Left checks were not answered, as too many came or the same was in hand;
	// the broker asks again.
	Left int64
	// Unheard answers did not reach the broker; it asks again.
	Unheard int64
	// Unrecorded answers UNKNOWN could not be kept in the database.
	Unrecorded int64

	// Swept records were confirmed by the sweep; Anew of them sent as another half
	// message. GivenUp ones became dead letters.
	Swept, Anew, GivenUp int64
	// Purged rows were deleted, of records or, where those are more, of answers.
	Purged int64
	// Ready is whether the broker knows this process as one of its group.
	Ready bool
	// Trouble is what does not answer or refuses, and Cause why: TroubleStore,
	// TroubleBroker, or empty.
	Trouble, Cause string
}

// What Stats.Trouble may be.
const (
	TroubleStore  = "database"
	TroubleBroker = "broker"
)
