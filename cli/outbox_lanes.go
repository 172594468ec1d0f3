package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/govern"
)

func (a *app) outboxLanesCommand() *cobra.Command {
	var (
		from       sources
		by, reason string
		asJSON     bool
	)
	c := &cobra.Command{
		Use:   "lanes SERVICE [N]",
		Short: "Show by how many relays at once an outbox is read, or change it",
		Long: fmt.Sprintf("Lanes shows the lanes of an outbox and who leads each. With N, 1 to %d, it has the outbox read by so many: each\n", govern.MaxLanes) +
			"lane's leader sends the keys that are its own, so that the order of a key holds, and reads the ids of all. The lanes\n" +
			"that read now end with what they have in flight, the new ones go on from there, and every settle serve runs them\n" +
			"without a restart; it takes about a second. The act is audited. SQLite has one lane.",
		RunE: func(c *cobra.Command, args []string) error {
			n, err := laneArguments(args)
			if err != nil {
				return err
			}
			fed, done, err := from.open(c.Context())
			if err != nil {
				return err
			}
			defer done()
			store, err := serviceOf(fed, args[0])
			if err != nil {
				return err
			}
			divider, ok := store.(govern.Divider)
			if !ok {
				return finding(fmt.Errorf("the outbox of %s is in SQLite, which has one writer: one lane reads it; PostgreSQL, MySQL and MariaDB take several", args[0]))
			}
			if n > 0 {
				return a.divide(c, divider, act(by, reason), args[0], n, asJSON)
			}
			lanes, err := divider.LaneStandings(c.Context())
			if err != nil {
				return unreachablef("%s: %w", c.CommandPath(), err)
			}
			if asJSON {
				return printJSON(a.Out, lanes)
			}
			return printLanes(a.Out, lanes)
		},
	}
	from.flags(c)
	auditFlags(c, &by, &reason)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// laneArguments returns the wanted number of lanes, 0 for none.
func laneArguments(args []string) (int, error) {
	switch len(args) {
	case 1:
		return 0, nil
	case 2:
		if n, err := strconv.Atoi(args[1]); err == nil && n >= 1 && n <= govern.MaxLanes {
			return n, nil
		}
		return 0, usagef("%q is no number of lanes; want 1 to %d", args[1], govern.MaxLanes)
	}
	return 0, usagef("write settle outbox lanes SERVICE [N]")
}

func (a *app) divide(c *cobra.Command, d govern.Divider, who govern.Act, service string, n int, asJSON bool) error {
	is, err := d.Divide(c.Context(), who, n)
	if err != nil {
		return unreachablef("%s: %w", c.CommandPath(), err)
	}
	if asJSON {
		return printJSON(a.Out, is)
	}
	said := fmt.Sprintf("the outbox of %s will be read by %s: those before end at id %d or where they are beyond it", service, count(n, "lane", "lanes"), is.Barrier)
	if !is.Ordered {
		said = fmt.Sprintf("the outbox of %s has %s already, or that is ordered; nothing was changed", service, count(n, "lane", "lanes"))
	}
	_, err = fmt.Fprintln(a.Out, said)
	return err
}

func printLanes(out io.Writer, lanes []govern.LaneStanding) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(w, "LANE\tPART\tSTATE\tLEADER\tREAD UP TO")
	for _, l := range lanes {
		state := "reads"
		switch {
		case !l.Begun:
			state = "waits for those before it to end"
		case l.Generation < lanes[len(lanes)-1].Generation:
			state = "ends"
		case !l.Led:
			state = "nobody leads"
		}
		_, line := fmt.Fprintf(w, "%d\t%d of %d\t%s\t%s\t%d\n", l.Lane, l.Index+1, l.Of, state, legible(l.Owner), l.Cursor)
		err = errors.Join(err, line)
	}
	return errors.Join(err, w.Flush())
}
