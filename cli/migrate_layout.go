package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/store/migrate"
)

// Bounds of --partition-ids: each partition costs every poll and every
// transaction a little, and of each all rows are read at once.
const (
	fewestPartitionIDs = 1_000
	mostPartitionIDs   = 20_000_000
)

// shaping are the flags that say what an outbox is to be like.
type shaping struct {
	lean, partitioned bool
	ids               int64
}

func (s *shaping) flags(c *cobra.Command) {
	c.Flags().BoolVar(&s.lean, "lean", false, "the outbox without the indexes that people search by; =false makes them again (default: as it is, and new ones with them)")
	c.Flags().BoolVar(&s.partitioned, "partitioned", false, "the outbox in partitions; =false makes one table of them again (default: as it is, and new ones as one table)")
	c.Flags().Int64Var(&s.ids, "partition-ids", migrate.PartitionIDs, "how many ids a partition takes: about a tenth of what is kept")
}

func (s *shaping) wanted(c *cobra.Command, adopt bool) (to shape, err error) {
	if c.Flags().Changed("lean") {
		to.layout = map[bool]migrate.Layout{true: migrate.LayoutLean, false: migrate.LayoutFull}[s.lean]
	}
	if to.divide = c.Flags().Changed("partitioned"); s.partitioned {
		to.ids = s.ids
	}
	switch {
	case adopt && to.layout != "":
		return to, usagef("--lean does not go with --adopt: the indexes of an adopted table are its owner's")
	case adopt && to.divide:
		return to, usagef("--partitioned does not go with --adopt: an adopted table is its owner's")
	case c.Flags().Changed("partition-ids") && !s.partitioned:
		return to, usagef("--partition-ids goes with --partitioned")
	case s.ids < fewestPartitionIDs || s.ids > mostPartitionIDs:
		return to, usagef("--partition-ids %d: want %d to %d", s.ids, fewestPartitionIDs, mostPartitionIDs)
	}
	return to, nil
}

// shape is what an outbox is to be like; the zero value leaves it as it is.
type shape struct {
	layout migrate.Layout
	divide bool
	ids    int64 // of each partition; 0: one table
}

// migrateUp applies what is missing and then leads to a shape, if one is asked
// for.
func (a *app) migrateUp(ctx context.Context, name string, s *migrate.Schema, to shape) error {
	// What has one shape is refused before anything is changed.
	if _, _, err := to.steps(ctx, s); err != nil {
		return err
	}
	applied, err := s.Up(ctx)
	if err != nil {
		return err
	}
	if to == (shape{}) {
		return a.printSteps(name, "applied", applied)
	}
	changes, err := to.change(ctx, s)
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

func (to shape) change(ctx context.Context, s *migrate.Schema) (changes []string, err error) {
	if to.layout != "" {
		if changes, err = s.ChangeLayout(ctx, to.layout); err != nil {
			return changes, err
		}
	}
	if !to.divide {
		return changes, nil
	}
	more, err := s.ChangePartitions(ctx, to.ids)
	return append(changes, more...), err
}

// steps returns the SQL of change, as far as it can be told before anything has
// changed.
func (to shape) steps(ctx context.Context, s *migrate.Schema) (indexes, tables []string, err error) {
	if to.layout != "" {
		if indexes, err = s.PlanLayout(ctx, to.layout); err != nil {
			return nil, nil, err
		}
	}
	if to.divide {
		tables, err = s.PlanPartitions(ctx, to.ids)
	}
	return indexes, tables, err
}

// plan returns the SQL of migrateUp.
func (to shape) plan(ctx context.Context, s *migrate.Schema) (string, error) {
	text, err := s.Plan(ctx)
	if err != nil {
		return text, err
	}
	indexes, tables, err := to.steps(ctx, s)
	switch {
	case err != nil:
		return text, err
	case len(indexes) > 0 && len(tables) > 0 && !strings.HasPrefix(text, "-- where"):
		return text, usagef("--lean and --partitioned of tables in use are one after the other: the SQL of the second depends on what the first has done")
	}
	if len(tables) > 0 {
		text += "-- partitions\nBEGIN;\n" + strings.Join(tables, ";\n") + ";\nCOMMIT;\n\n"
	}
	if len(indexes) > 0 {
		text += fmt.Sprintf("-- %s layout: each statement by itself, outside a transaction\n%s;\n", to.layout, strings.Join(indexes, ";\n"))
	}
	return text, nil
}
