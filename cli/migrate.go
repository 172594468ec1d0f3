package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/server"
	"github.com/settlemq/settle/store/migrate"
)

// schemas are the databases that a migrate command works on.
type schemas struct {
	db, config string
}

func (s *schemas) flags(c *cobra.Command) {
	c.Flags().StringVar(&s.db, "db", "", "URL of the database; ${NAME} and ${file:/path} in it, and a whole file:/path, are replaced as in a config file")
	c.Flags().StringVarP(&s.config, "config", "c", "", "config file of settle serve: all its sources, instead of --db")
}

// each opens one database after the other and calls do. The name is empty for
// that of --db. No error shows a password.
func (s *schemas) each(ctx context.Context, create bool, do func(name string, schema *migrate.Schema) error) error {
	cfg, names, err := s.named()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.one(ctx, cfg.Sources[name].DB, create, func(schema *migrate.Schema) error { return do(name, schema) }); err != nil {
			if name != "" {
				err = fmt.Errorf("%s: %w", name, err)
			}
			return classify(cfg.HideError(err))
		}
	}
	return nil
}

func (s *schemas) named() (cfg server.Config, names []string, err error) {
	switch {
	case (s.db == "") == (s.config == ""):
		return cfg, nil, usagef("name a database with --db URL, or a config file with -c; for instance --db sqlite:///var/lib/shop/order.db")
	case s.config != "":
		if cfg, err = readServeConfig(s.config); err != nil {
			return cfg, nil, err
		}
		for name := range cfg.Sources {
			names = append(names, name)
		}
		slices.Sort(names)
		return cfg, names, nil
	}
	at, err := server.Expand(s.db)
	if err != nil {
		return cfg, nil, usagef("--db: %w", err)
	}
	return server.Config{Sources: map[string]server.SourceConfig{"": {DB: at}}}, []string{""}, nil
}

func (s *schemas) one(ctx context.Context, at string, create bool, do func(*migrate.Schema) error) error {
	schema, err := dial.Schema(ctx, at, create)
	if err != nil {
		return err
	}
	return errors.Join(schema.Explain(do(schema)), schema.Close())
}

// classify gives an error the exit code of its kind.
func classify(err error) error {
	var exit *ExitError
	var wrong *dial.URLError
	switch {
	case errors.As(err, &exit):
		return &ExitError{Code: exit.Code, Err: err}
	case errors.As(err, &wrong):
		return usagef("--db: %w", err)
	case errors.Is(err, migrate.ErrUndelivered), errors.Is(err, migrate.ErrHalfDown), errors.Is(err, govern.ErrLeads), errors.Is(err, migrate.ErrWouldBeSent), errors.Is(err, migrate.ErrNewerSchema), errors.Is(err, migrate.ErrOccupied), errors.Is(err, migrate.ErrNotAdoptable), errors.Is(err, migrate.ErrOneLayout),
		errors.Is(err, migrate.ErrOneTable), errors.Is(err, migrate.ErrNotDivided):
		return finding(err)
	}
	return unreachablef("%w", err)
}

func (a *app) migrateCommand() *cobra.Command {
	var (
		of     schemas
		as     adopting
		shape  shaping
		dryRun bool
	)
	c := group("migrate", "Make the tables of a database, and bring them up to date", a.migrateStatusCommand(), a.migrateDownCommand())
	c.Long = "Migrate makes the tables that producers, relays and consumers use, or brings them to the schema of this program.\n" +
		"Only one process migrates a database at a time. --dry-run prints the SQL instead, for whoever may change the\n" +
		"database: run by hand, it is the same migration.\n\n" +
		"With --adopt an outbox table that was there before Settle is read as it stands: it prints what it finds and what it\n" +
		"will do, and does it with --yes. Settle's own tables get a schema of their own, that of the URL's search_path or\n" +
		"settle; nothing is created or altered in the schema of the table.\n\n" +
		"With --lean the outbox, of Settle's own and in PostgreSQL or MySQL, has no indexes on order id, business key and trace,\n" +
		"which cost each insert and serve only people who search: a trail then finds what stands only in the outbox by its event id.\n" +
		"--lean on tables in use drops them and --lean=false makes them, while everybody goes on; without it they stay as they are.\n\n" +
		"With --partitioned one in PostgreSQL is divided into tables by ranges of ids, so that what is old goes a table at a time.\n" +
		"On tables in use everybody waits meanwhile: the rows are read once, and with --partitioned=false all are written anew."
	c.Use = "migrate --db URL"
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unknown command %q; the commands of %s are %s, or none", args[0], c.CommandPath(), strings.Join(commandNames(c), ", "))
		}
		if err := as.check(c); err != nil {
			return err
		}
		to, err := shape.wanted(c, as.adopt)
		if err != nil {
			return err
		}
		if as.adopt {
			return a.adopt(c.Context(), &of, &as, dryRun)
		}
		return of.each(c.Context(), !dryRun, func(name string, s *migrate.Schema) error {
			if dryRun {
				return a.printPlan(name, func() (string, error) { return to.plan(c.Context(), s) })
			}
			return a.migrateUp(c.Context(), name, s, to)
		})
	}
	of.flags(c)
	as.flags(c)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the SQL and change nothing")
	shape.flags(c)
	return c
}

// printPlan prints SQL, or a comment when there is none.
func (a *app) printPlan(name string, plan func() (string, error)) error {
	text, err := plan()
	if err != nil {
		return err
	}
	if text == "" {
		text = "-- nothing to do\n"
	}
	if name != "" {
		text = "-- source " + name + "\n" + text
	}
	_, err = fmt.Fprint(a.Out, text)
	return err
}

func (a *app) printSteps(name, verb string, steps []migrate.Step) error {
	if name != "" {
		name += ": "
	}
	if len(steps) == 0 {
		_, err := fmt.Fprintf(a.Out, "%snothing to do\n", name)
		return err
	}
	for _, s := range steps {
		if _, err := fmt.Fprintf(a.Out, "%s%s %d %s\n", name, verb, s.Version, s.Name); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printNothingAbove(name string, version int64) error {
	if name != "" {
		name += ": "
	}
	_, err := fmt.Fprintf(a.Out, "%snothing to take back: no migration above %d is there\n", name, version)
	return err
}

// sourceStep is a migration of one source.
type sourceStep struct {
	Source string `json:"source,omitempty"`
	migrate.Step
	// Layout of the source's outbox, where it can have several, and how many ids
	// each of its partitions takes; 0 where it is one table.
	Layout       migrate.Layout `json:"layout,omitempty"`
	PartitionIDs int64          `json:"partition_ids,omitempty"`
}

func (a *app) migrateStatusCommand() *cobra.Command {
	var (
		of     schemas
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "status --db URL",
		Short: "List the migrations that a database has and those that it lacks",
		Long: "Status lists every migration, and the layout of an outbox in PostgreSQL or MySQL (see --lean, --partitioned). It changes nothing, and ends\n" +
			"with 1 when a migration is missing.",
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			all, missing := []sourceStep{}, 0
			err := of.each(c.Context(), false, func(name string, s *migrate.Schema) error {
				steps, err := s.Status(c.Context())
				if err != nil {
					return err
				}
				layout, err := s.Layout(c.Context())
				if err != nil {
					return err
				}
				ids, err := s.PartitionWidth(c.Context())
				for _, step := range steps {
					all = append(all, sourceStep{name, step, layout, ids})
					if !step.Applied {
						missing++
					}
				}
				return err
			})
			if err != nil {
				return err
			}
			if err := a.printStatus(all, asJSON); err != nil || missing == 0 {
				return err
			}
			return finding(fmt.Errorf("%d migrations are missing; settle migrate applies them", missing))
		},
	}
	of.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return c
}

func (a *app) printStatus(all []sourceStep, asJSON bool) error {
	if asJSON {
		return printJSON(a.Out, all)
	}
	for i, s := range all {
		state := "missing"
		if s.Applied {
			state = "applied"
		}
		if s.Source != "" {
			s.Source += " "
		}
		if _, err := fmt.Fprintf(a.Out, "%s%s %d %s\n", s.Source, state, s.Version, s.Name); err != nil {
			return err
		}
		if last := i+1 == len(all) || all[i+1].Version < s.Version; last && s.Layout != "" {
			in := ""
			if s.PartitionIDs > 0 {
				in = fmt.Sprintf(", in partitions of %d ids", s.PartitionIDs)
			}
			if _, err := fmt.Fprintf(a.Out, "%slayout %s%s\n", s.Source, s.Layout, in); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *app) migrateDownCommand() *cobra.Command {
	var (
		of     schemas
		to     int64
		dryRun bool
	)
	c := &cobra.Command{
		Use:   "down --db URL --to VERSION",
		Short: "Take migrations back, unless events would be lost",
		Long: "Down takes back every migration above VERSION, all or none; 0 removes every table of Settle. It refuses while\n" +
			"a relay leads, paused or not, and while there is an event that was not sent, or that waits to take effect. What consumers have applied is forgotten\n" +
			"with their tables: an event that is delivered again afterwards takes effect again.",
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if to < 0 {
				return usagef("settle migrate down needs --to VERSION, 0 or more; settle migrate status lists them")
			}
			return of.each(c.Context(), false, func(name string, s *migrate.Schema) error {
				if dryRun {
					return a.printPlan(name, func() (string, error) { return s.PlanDown(c.Context(), to) })
				}
				removed, err := s.Down(c.Context(), to)
				if err != nil {
					return err
				}
				if len(removed) == 0 {
					return a.printNothingAbove(name, to)
				}
				return a.printSteps(name, "took back", removed)
			})
		},
	}
	of.flags(c)
	c.Flags().Int64Var(&to, "to", -1, "the last version that stays")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the SQL and change nothing; it does not look for events that would be lost")
	return c
}
