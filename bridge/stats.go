package bridge

// Stats is what a bridge has done in this process, and how it stands.
type Stats struct {
	// Leading is whether it holds the group's lease.
	Leading bool
	// Kept letters are new; Again those that came although they were there.
	Kept, Again int64
	// Returned letters went back; GivenUp ones could not, and are open again.
	Returned, GivenUp int64
	// Trouble is what does not answer or refuses, and Cause why: TroubleStore,
	// TroubleSource, or empty.
	Trouble, Cause string
}

// What Stats.Trouble may be.
const (
	TroubleStore  = "database"
	TroubleSource = "broker"
)
