package main

import (
	"context"
	"time"
)

// raw is the least that carrying events can cost: read the next 1,000 by
// primary key, encode each, write down how far it came. It is no relay: it
// loses every event whose transaction commits after a later one was read, it
// knows no failures, and two of them send everything twice.
func raw(l layout, carry func(context.Context, conditions) error) contender {
	return contender{name: rawName, title: "raw limit: cursor, encode, checkpoint per 1,000", layout: l, carry: carry}
}

// rawPause is the wait after a read that found nothing.
const rawPause = time.Millisecond
