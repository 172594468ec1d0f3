// Package doctor is the form in which a database or a broker says how safe it
// is to rely on: a list of findings. Stores and brokers examine, commands print.
package doctor

import "context"

// Checker is a database or a broker that can be examined.
type Checker interface {
	// Check looks at everything once and changes nothing. It returns one finding
	// for each check, always in the same order, also for what is sound; a check
	// that can't be made is a finding of its own. It blocks for the
	// database or broker, bounded, or until ctx is done. An error means that it
	// can't be reached at all; it is one sentence that names the cause and what
	// mends it.
	// Neither shows a password.
	Check(ctx context.Context) ([]Finding, error)
	// Durability is Check with those checks only on which it rests that a
	// committed event outlives a crash of the database, or an acknowledged one the
	// loss of a broker's node. They are quick, whatever is stored.
	Durability(ctx context.Context) ([]Finding, error)
}
