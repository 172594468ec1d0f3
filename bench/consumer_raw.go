package main

import "context"

// upserts are the least that applying events once can cost: 1,000 events a
// transaction, one statement that records those which are new, and one that adds
// up their effects. No handler of a business could be written like that, and one
// bad event fails a thousand.
func upserts(create func(context.Context, *place) error, apply func(context.Context, string, delivery) error) applier {
	return applier{name: rawName, title: "raw limit: batched upserts, 1,000 a transaction", create: create, apply: apply}
}
