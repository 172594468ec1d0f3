package consumer

import (
	"context"
	"fmt"
	"time"

	"github.com/settlemq/settle"
)

// Handler makes the effect of an event, with tx, in the transaction that also
// records that the event is done. What it returns decides:
//
//   - nil: applied.
//   - settle.Reject(reason): the business said no; recorded, what it wrote is kept.
//   - settle.Permanent(err): a dead letter now.
//   - settle.Unavailable(err): something it depends on is away; delivery of its
//     event type pauses and no attempt is counted.
//   - any other error, a panic, or running longer than its timeout: an attempt
//     that is retried by the group's policy.
//
// It must not commit, roll back or keep tx, nor keep or change e. After
// anything but nil and a rejection the transaction is rolled back, and it may
// be called again for events that it has already handled there. ctx is
// cancelled at the timeout; a handler that ignores it holds its transaction.
type Handler[Tx any] func(ctx context.Context, tx Tx, e *settle.Event) error

// BatchHandler makes the effects of many events of one type in one call, for
// logs and analytics. The events are in order per key, and none was handled
// before. An error speaks of all: the call is repeated with fewer events, down
// to one, until the event that fails is alone.
type BatchHandler[Tx any] func(ctx context.Context, tx Tx, events []*settle.Event) error

// HandlerOptions say how a handler is to be called. The zero value works.
type HandlerOptions struct {
	// External means that the handler has effects outside the transaction. It
	// is called for one event at a time, alone in its transaction; the outside
	// may still see an event twice and is to be given Event.ID, or what comes
	// with the event, as idempotency key. It may call the outside by Ask, so that
	// no transaction waits for the answer. Defaults to false.
	External bool
	// MaxVersion is the highest version of the payload that the handler takes;
	// an event above it is a dead letter of class unknown_version. Defaults to 1.
	MaxVersion int
	// Upcast brings an event below MaxVersion up to it. It gets a copy of the
	// event, is pure, and returns an error for a version that it doesn't know:
	// a dead letter of class unknown_version. Defaults to none: the handler
	// takes old versions as they are.
	Upcast func(*settle.Event) (*settle.Event, error)
	// Timeout is when the handler's context is cancelled. Defaults to
	// Config.HandlerTimeout.
	Timeout time.Duration
}

// handler is one of the two forms, with its options.
type handler[Tx any] struct {
	eventType string
	options   HandlerOptions
	one       Handler[Tx]
	many      BatchHandler[Tx]
	// compensation is nil when there is none; compensates is true in one.
	compensation *handler[Tx]
	compensates  bool
}

func (h *handler[Tx]) rule() HandlerRule {
	rule := HandlerRule{External: h.options.External, Batch: h.many != nil, MaxVersion: h.options.MaxVersion}
	if h.compensation != nil {
		c := h.compensation.rule()
		rule.Compensation = &c
	}
	return rule
}

// upcast returns the event as the handler wants it.
func (h *handler[Tx]) upcast(e *settle.Event) (up *settle.Event, err error) {
	highest := max(h.options.MaxVersion, 1)
	if h.options.Upcast == nil || e.Version >= highest {
		return e, nil
	}
	defer func() {
		if v := recover(); v != nil {
			up, err = nil, &VersionError{Version: e.Version, MaxVersion: highest, Err: fmt.Errorf("panicked: %v", v)}
		}
	}()
	c := *e
	if up, err = h.options.Upcast(&c); err != nil {
		return nil, &VersionError{Version: e.Version, MaxVersion: highest, Err: err}
	}
	return up, nil
}
