package main

import "context"

// single is the idempotent consumer as most write it: a transaction for each
// message, in which the message id is recorded first and the effect follows if
// it was new. One connection, so that the order of a key holds.
func single(create func(context.Context, *place) error, apply func(context.Context, string, delivery) error) applier {
	return applier{name: singleName, title: "one transaction per message", create: create, apply: apply, share: 40}
}

const singleName = "single"
