// Package doctor is the form in which a database says how safe it is to rely
// on: a list of findings. Stores examine, commands print.
package doctor

import "context"

// Checker is a database that can be examined.
type Checker interface {
	// Check looks at everything once and changes nothing. It returns one finding
	// for each check, always in the same order, also for what is sound; a check
	// that can't be made is a finding of its own. It blocks for the database,
	// bounded, or until ctx is done. An error means that the database can't be
	// reached at all; it is one sentence that names the cause and what mends it.
	// Neither shows a password.
	Check(ctx context.Context) ([]Finding, error)
	// Durability is Check with those checks only on which it rests that a
	// committed event outlives a crash of the database. They are quick, whatever
	// the tables hold.
	Durability(ctx context.Context) ([]Finding, error)
}
