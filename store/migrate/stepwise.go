package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pressly/goose/v3/database"
)

// ErrHalfDown means that a way down has begun to delete and did not come to its
// end. There is only one way on.
var ErrHalfDown = errors.New("a way down has begun here and not ended; settle migrate down --to 0 ends it, then the tables can be made again")

// Stepwise is how a way down is held together in a database that commits each
// statement which changes the schema by itself: no transaction keeps writers
// out from a last look to the end.
type Stepwise interface {
	// Begin looks for what was not delivered, before a way down to a version that
	// drops something. Where that leaves nothing it keeps writers out first, and
	// until End. On an error, which may wrap ErrUndelivered, all is as before.
	Begin(ctx context.Context, to int64) error
	// Begun reports whether a way down to nothing has begun for good.
	Begun(ctx context.Context) (bool, error)
	// End deletes what writers were kept from. It may be called again.
	End(ctx context.Context) error
	// Resume lets writers write again after a way down that was stopped before
	// it began for good. It returns ErrHalfDown after one that had.
	Resume(ctx context.Context) error
}

// downStepwise is Down for such a database.
//
// Crash here: before Begin has returned the next Up, Down or Open lets writers
// write again; after it Down goes on where it stopped, since each statement can
// be run again.
func (s *Schema) downStepwise(ctx context.Context, to int64) ([]Step, error) {
	begun, err := s.s.Stepwise.Begun(ctx)
	if err != nil {
		return nil, err
	}
	if begun && to > 0 {
		return nil, ErrHalfDown
	}
	var removed []Step
	if begun {
		removed, err = s.applied(ctx)
	} else {
		removed, err = s.aboveResumed(ctx, to)
	}
	if err != nil || len(removed) == 0 && !begun {
		return removed, err
	}
	if !begun && slices.ContainsFunc(removed, Step.drops) {
		if err := s.s.Stepwise.Begin(ctx, to); err != nil {
			return nil, err
		}
	}
	for _, step := range removed {
		if err := s.takeBack(ctx, step, to); err != nil {
			return nil, fmt.Errorf("take back schema version %d: %w", step.Version, err)
		}
	}
	if to > 0 {
		return removed, nil
	}
	if err := s.s.Stepwise.End(ctx); err != nil {
		return nil, fmt.Errorf("take back schema: %w", err)
	}
	if _, err := s.s.DB.ExecContext(ctx, dropTable); err != nil {
		return nil, fmt.Errorf("take back schema: %w", err)
	}
	return removed, nil
}

// aboveResumed is above, after writers write again where a way down had stopped.
func (s *Schema) aboveResumed(ctx context.Context, to int64) ([]Step, error) {
	if s.s.DB != nil {
		if err := s.s.Stepwise.Resume(ctx); err != nil {
			return nil, err
		}
	}
	return s.above(ctx, to)
}

// applied returns the steps that are there, the last first.
func (s *Schema) applied(ctx context.Context) ([]Step, error) {
	steps, err := s.Status(ctx)
	slices.Reverse(steps)
	return slices.DeleteFunc(steps, func(step Step) bool { return !step.Applied }), err
}

// takeBack runs the statements of a step in one session. On the way to nothing
// no view is made again: what it is of may be gone.
func (s *Schema) takeBack(ctx context.Context, step Step, to int64) error {
	store, err := database.NewStore(database.Dialect(s.s.Dialect), Table)
	if err != nil {
		return err
	}
	conn, err := s.s.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for _, sql := range step.statements(goingDown) {
		if to == 0 && strings.HasPrefix(sql, "CREATE OR REPLACE VIEW") {
			continue
		}
		if _, err := conn.ExecContext(ctx, sql); err != nil {
			return err
		}
	}
	return store.Delete(ctx, conn, step.Version)
}
