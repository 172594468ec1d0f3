package migrate

import (
	"context"
	"errors"
	"fmt"
)

// Layout is which indexes the outbox has beside its keys. Every one of them
// costs each insert; the relay needs none.
type Layout string

// Layouts. A trail finds an event in a lean outbox by its event id only.
const (
	LayoutFull = Layout("full") // people search by order id, business key and trace
	LayoutLean = Layout("lean") // none of them
	// LayoutPartial: a change of layout was stopped half-way; do it again.
	LayoutPartial = Layout("partial")
)

// ErrOneLayout means that an outbox has no other layout. Nothing was changed.
var ErrOneLayout = errors.New("only an outbox of Settle's own in PostgreSQL or MySQL has a lean layout")

// Layouts changes the layout of an outbox that is in use.
type Layouts interface {
	// Layout returns the present one, empty where there is no outbox.
	Layout(ctx context.Context) (Layout, error)
	// Steps returns, in order, the SQL that leads to a layout; none where it is
	// there. Each statement is one of its own, outside a transaction.
	Steps(ctx context.Context, to Layout) ([]string, error)
	// Change runs them and returns them. Nobody who reads or writes is kept
	// waiting, on MySQL for no longer than a second at a time; it blocks until
	// every transaction that was open when it began has ended. It goes on with
	// what was stopped.
	Change(ctx context.Context, to Layout) ([]string, error)
}

// Layout returns the layout of the outbox, empty where there is none or only one.
func (s *Schema) Layout(ctx context.Context) (Layout, error) {
	if s.s.DB == nil || s.s.Layouts == nil {
		return "", nil
	}
	l, err := s.s.Layouts.Layout(ctx)
	if err != nil {
		return "", fmt.Errorf("read the layout of the outbox: %w", err)
	}
	return l, nil
}

// PlanLayout returns the SQL that leads to a layout from the present one, or,
// where there is no outbox yet, from that which Plan makes.
func (s *Schema) PlanLayout(ctx context.Context, to Layout) ([]string, error) {
	if s.s.Layouts == nil {
		return nil, ErrOneLayout
	}
	steps, err := s.s.Layouts.Steps(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("plan the %s layout: %w", to, err)
	}
	return steps, nil
}

// ChangeLayout leads to a layout and returns the SQL that did it. The schema is
// the newest.
func (s *Schema) ChangeLayout(ctx context.Context, to Layout) ([]string, error) {
	if s.s.Layouts == nil {
		return nil, ErrOneLayout
	}
	steps, err := s.s.Layouts.Change(ctx, to)
	if err != nil {
		return steps, fmt.Errorf("change to the %s layout, which can be done again: %w", to, err)
	}
	return steps, nil
}
