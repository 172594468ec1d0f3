package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/govern"
)

// restarting are the flags of outbox restart.
type restarting struct {
	from                sources
	id                  int64
	start, end          bool
	yes, asJSON         bool
	by, reason, command string
}

func (a *app) outboxRestartCommand() *cobra.Command {
	r := restarting{command: "settle outbox restart"}
	c := &cobra.Command{
		Use:   "restart SERVICE",
		Short: "Decide where a relay goes on after a restore, or of a table that was made anew",
		Long: "A relay stops when its recorded position is of another life of the table: the database was restored, the table was\n" +
			"emptied, its ids begin again. Without a choice restart shows what there is, changes nothing and ends with 1. With\n" +
			"--from ID, --from-start or --from-end it says how many rows are sent, and with --yes and --reason it writes the new\n" +
			"position. Rows from there on are sent, whether they were before or not; those before it count as sent. What waited\n" +
			"beside the log is kept where its event is there, and is a dead letter where it is not. It is refused while a relay\n" +
			"leads.",
		Args: exactly(1, "a service"),
		RunE: func(c *cobra.Command, args []string) error { return a.restart(c, &r, args[0]) },
	}
	r.flags(c)
	return c
}

// outboxAdoptCommand is the same under a longer name.
func (a *app) outboxAdoptCommand() *cobra.Command {
	r := restarting{command: "settle outbox adopt --restart"}
	var restart bool
	c := &cobra.Command{
		Use:   "adopt SERVICE --restart",
		Short: "The same as restart: adopt an outbox as it is now, after a restore",
		Args:  exactly(1, "a service"),
		RunE: func(c *cobra.Command, args []string) error {
			if !restart {
				return usagef("settle outbox adopt needs --restart; a table of another owner is adopted by settle migrate --adopt")
			}
			return a.restart(c, &r, args[0])
		},
	}
	r.flags(c)
	c.Flags().BoolVar(&restart, "restart", false, "decide where the relay goes on")
	return c
}

func (r *restarting) flags(c *cobra.Command) {
	r.from.flags(c)
	auditFlags(c, &r.by, &r.reason)
	c.Flags().Int64Var(&r.id, "from", 0, "send rows from this id on")
	c.Flags().BoolVar(&r.start, "from-start", false, "send every row that there is")
	c.Flags().BoolVar(&r.end, "from-end", false, "send what is appended from now on")
	c.Flags().BoolVar(&r.yes, "yes", false, "do it; without it the command only tells")
	c.Flags().BoolVar(&r.asJSON, "json", false, "print one JSON object")
}

// choice is the id to go on from; 0 when none was named.
func (r *restarting) choice(c *cobra.Command) (from int64, err error) {
	named := 0
	for _, f := range []string{"from", "from-start", "from-end"} {
		if c.Flags().Changed(f) {
			named++
		}
	}
	switch {
	case named > 1:
		return 0, usagef("choose one of --from ID, --from-start and --from-end")
	case c.Flags().Changed("from") && r.id < 1:
		return 0, usagef("--from is %d; ids begin at 1", r.id)
	case r.start:
		return 1, nil
	case r.end:
		return govern.FromEnd, nil
	case r.yes && r.id == 0:
		return 0, usagef("--yes needs a choice: --from ID, --from-start or --from-end")
	}
	return r.id, nil
}

func (a *app) restart(c *cobra.Command, r *restarting, service string) error {
	from, err := r.choice(c)
	if err != nil {
		return err
	}
	if r.yes && r.reason == "" {
		return usagef("%s needs --reason: it is kept in the audit log", r.command)
	}
	fed, done, err := r.from.open(c.Context())
	if err != nil {
		return err
	}
	defer done()
	store, err := serviceOf(fed, service)
	if err != nil {
		return err
	}
	if !r.yes {
		s, err := store.Standing(c.Context())
		if err != nil {
			return unreachablef("%s: %w", c.CommandPath(), err)
		}
		if r.asJSON {
			err = printJSON(a.Out, s)
		} else {
			err = printStanding(a.Out, service, s, r.command)
		}
		return errors.Join(err, finding(r.nothingDone(from)))
	}
	did, err := store.Restart(c.Context(), act(r.by, r.reason), from)
	switch {
	case errors.Is(err, govern.ErrLeads), errors.Is(err, govern.ErrNotGiven):
		return finding(err)
	case err != nil:
		return unreachablef("%s: %w", c.CommandPath(), err)
	case r.asJSON:
		return printJSON(a.Out, did)
	}
	return printRestart(a.Out, service, did)
}

func (r *restarting) nothingDone(from int64) error {
	if from == 0 {
		return errors.New("nothing was changed: choose one, with --yes and --reason")
	}
	return errors.New("nothing was changed: say --yes and --reason to do it")
}

func printStanding(w io.Writer, service string, s govern.Standing, command string) error {
	title := "the relay's position is of this table; a restart is not needed"
	switch {
	case s.OtherLife != "":
		title = "the relay's position is of another life of this table"
	case s.Number == 0:
		title = "no relay has been here; the first begins at the start"
	}
	if _, err := fmt.Fprintf(w, "%s: %s\n", service, title); err != nil {
		return err
	}
	for _, r := range s.Readers {
		if err := printReader(w, r); err != nil {
			return err
		}
	}
	leader := "nobody leads"
	if s.Leader != "" {
		leader = fmt.Sprintf("%s leads until %s: end it first", legible(s.Leader), s.Until.UTC().Format("15:04:05"))
	}
	ids := ""
	if s.Rows > 0 {
		ids = fmt.Sprintf(", ids %d to %d", s.Lowest, s.Highest)
	}
	uncounted := ""
	if s.Uncounted != "" {
		uncounted = "not counted   " + legible(s.Uncounted) + "\n"
	}
	_, err := fmt.Fprintf(w, "there now     %s%s; the highest id ever given is %d\n%swaiting       %d parked, %d delayed, %d listed to be sent\nleader        %s\n"+
		"choices of %s %s:\n"+
		"  --from-start  sends all that is there: %s\n  --from ID     sends the rows from that id on, all before it count as sent\n  --from-end    sends what is appended from now on, all that is there counts as sent\n",
		rowsOf(s.Rows), ids, s.Given, uncounted, s.Parked, s.Delayed, s.Listed, leader, command, service, rowsOf(s.Rows))
	return err
}

func printReader(w io.Writer, r govern.ReaderAt) error {
	of := ""
	if r.Destination != "" {
		of = " of topic " + legible(r.Destination)
	}
	was := ""
	if r.CursorEvent != "" {
		was = ", event " + legible(r.CursorEvent)
	}
	now := "no event"
	if r.Now != "" {
		now = "event " + legible(r.Now)
	}
	_, err := fmt.Fprintf(w, "recorded%s      id %d%s; there is %s at it now, %s at or below it and %s above\n", of, r.Cursor, was, now, rowsOf(r.Below), rowsOf(r.Above))
	return err
}

func rowsOf(n int64) string { return count(int(n), "row", "rows") }

func printRestart(w io.Writer, service string, r govern.Restart) error {
	_, err := fmt.Fprintf(w, "%s goes on from id %d, epoch %d: %s from there on are sent, %s before count as sent\n", service, r.From, r.Epoch, rowsOf(r.Sent), rowsOf(r.Passed))
	if err == nil && r.Kept > 0 {
		_, err = fmt.Fprintf(w, "%s before it waited and will be sent as well\n", rowsOf(r.Kept))
	}
	if err == nil && r.Lost > 0 {
		_, err = fmt.Fprintf(w, "%s waited and have no row any more: settle dead list shows them\n", count(int(r.Lost), "event", "events"))
	}
	return err
}
