package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/settlemq/settle/store/migrate"
)

// migrateUp applies what is missing and then leads to a layout, if one is asked
// for.
func (a *app) migrateUp(ctx context.Context, name string, s *migrate.Schema, to migrate.Layout) error {
	if to != "" {
		// What has one layout is refused before anything is changed.
		if _, err := s.PlanLayout(ctx, to); err != nil {
			return err
		}
	}
	applied, err := s.Up(ctx)
	if err != nil {
		return err
	}
	if to == "" {
		return a.printSteps(name, "applied", applied)
	}
	changes, err := s.ChangeLayout(ctx, to)
	if err != nil {
		return err
	}
	if len(applied) > 0 || len(changes) == 0 {
		if err := a.printSteps(name, "applied", applied); err != nil {
			return err
		}
	}
	if name != "" {
		name += ": "
	}
	for _, change := range changes {
		if _, err := fmt.Fprintf(a.Out, "%s%s\n", name, change); err != nil {
			return err
		}
	}
	return nil
}

// planWithLayout returns the SQL of migrateUp.
func planWithLayout(ctx context.Context, s *migrate.Schema, to migrate.Layout) (string, error) {
	text, err := s.Plan(ctx)
	if err != nil || to == "" {
		return text, err
	}
	steps, err := s.PlanLayout(ctx, to)
	if err != nil || len(steps) == 0 {
		return text, err
	}
	return text + fmt.Sprintf("-- %s layout: each statement by itself, outside a transaction\n%s;\n", to, strings.Join(steps, ";\n")), nil
}
