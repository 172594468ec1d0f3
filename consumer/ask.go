package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/settlemq/settle"
)

// Ask puts a question to another system from an External handler, outside of
// any transaction: what may take long holds no lock, and as many events ask at
// a time as Config.Concurrency allows.
//
// The transaction in which a handler asks is rolled back with all that it
// wrote. Then the question is asked, with the handler's time-out. Then the
// handler runs again from its beginning, in a new transaction, and this time
// Ask returns the answer at once; so a handler must return when Ask returns an
// error. What has changed in the database meanwhile is seen there; that the
// event is new and its key not blocked is known before the first question. A
// handler may ask several questions, at most 16, one after the other and from
// its own goroutine. The first answer is that of the first question, and so on:
// decide what to ask by the event and by what only events of its key change.
//
// Each attempt asks again. A crash after an answer leaves nobody knowing that
// it was given: the event comes again and asks again, so name the effect by
// what comes with the event. Two processes may ask for one event at a time: one
// has lost its partition, or both found its retry due. So the other system may
// hear of an event when another process has long done with it, and what undoes
// an effect must bar a late one too.
//
// In a handler that is not External Ask returns an error and asks nothing.
// Called from outside of a consumer, in a test for instance, it asks at once.
func Ask[A any](ctx context.Context, question func(ctx context.Context) (A, error)) (A, error) {
	a, ok := ctx.Value(askingKey{}).(*asking)
	if !ok {
		return question(ctx)
	}
	var none A
	if a == nil {
		return none, errors.New("ask: the handler is not External: its transaction would wait for the answer")
	}
	got, err := a.ask(func(ctx context.Context) (any, error) { return question(ctx) })
	if err != nil {
		return none, err
	}
	given, ok := got.(A)
	if !ok && got != nil {
		return none, fmt.Errorf("ask: this is another question than the last time: its answer was a %T", got)
	}
	return given, nil
}

// askingKey is the key of the asking in a handler's context; it is a nil one
// where nothing may be asked.
type askingKey struct{}

// maxQuestions bounds what one attempt asks.
const maxQuestions = 16

// errAsk is what a handler is told that has to wait for an answer. It rolls
// its transaction back and is seen by nobody else.
var errAsk = errors.New("another system is asked first")

// asking is what the handler of one event asks, in one attempt. Each attempt
// has its own, so that a goroutine which a handler left behind asks for no
// other event.
type asking struct {
	given []answer
	next  int // which of them the handler is told next
	// question waits to be asked; nil when there is none.
	question func(ctx context.Context) (any, error)
}

type answer struct {
	value any
	err   error
}

// begin is called before the handler runs, from its beginning.
func (a *asking) begin(ctx context.Context) context.Context {
	a.next, a.question = 0, nil
	return context.WithValue(ctx, askingKey{}, a)
}

func (a *asking) ask(question func(ctx context.Context) (any, error)) (any, error) {
	if a.next < len(a.given) {
		a.next++
		return a.given[a.next-1].value, a.given[a.next-1].err
	}
	if len(a.given) == maxQuestions {
		return nil, fmt.Errorf("ask: one event has %d questions; more are not asked", maxQuestions)
	}
	a.question = question
	return nil, errAsk
}

// asks reports whether a handler that was rolled back waits for an answer. The
// store has the last word: it may have run the handler, begun anew, and found
// that the event is done.
func (c *call[Tx]) asks(results []settle.Result) bool {
	return slices.ContainsFunc(results, func(r settle.Result) bool { return errors.Is(r.Err, errAsk) })
}

// answer asks what the handler of the work wants to know.
func (c *call[Tx]) answer(h *handler[Tx]) {
	question := c.asking.question
	c.asking.question = nil
	var got answer
	// What a question calls is in no transaction: there it asks at once.
	ctx := context.WithValue(c.work, askingKey{}, nil)
	got.err = c.timed(ctx, h, 0, func(ctx context.Context) (err error) {
		got.value, err = question(ctx)
		return err
	})
	c.asking.given = append(c.asking.given, got)
	// Crash here: the other system may have done its part and nobody here
	// knows. The event comes again and asks again.
	c.s.crash("consume.after_ask")
}
