package main

import (
	"context"
	"time"

	"github.com/settlemq/settle"
)

// tutorial is the relay as tutorials write it: find the first 100 pending rows,
// send each, save each. It has the table and index of the classic relay at its
// best, so the difference is the update per row alone; and no pause while there
// is more, although most are scheduled once a second.
func tutorial(l layout, carry func(context.Context, conditions) error) contender {
	return contender{name: "tutorial", title: "as tutorials write it (update per row)", layout: l, carry: carry, share: 30}
}

// tutorialPause is the wait after fewer than 100 were found.
const tutorialPause = 100 * time.Millisecond

// tutorialRow is a row as an object mapper would have it.
type tutorialRow struct {
	id    int64
	event settle.Event
}
