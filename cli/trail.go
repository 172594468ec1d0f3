package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/govern"
)

func (a *app) trailCommand() *cobra.Command {
	var (
		from   sources
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "trail ID",
		Short: "Show everything known of an order, an event or a trace",
		Long: "Trail shows, over all services, the way of every event whose order id (aggregate id), business key,\n" +
			"event id or trace id is ID: produced, published and where, applied, failed and why, repaired and by whom.\n" +
			"Evidence that should be there and is not is shown as missing; a service that does not answer is named.",
		Args: exactly(1, "one id"),
		RunE: func(c *cobra.Command, args []string) error {
			fed, done, err := from.open(c.Context())
			if err != nil {
				return err
			}
			defer done()
			j, err := fed.Trail(c.Context(), args[0])
			if err != nil {
				return unreachablef("trail %s: %w", args[0], err)
			}
			if asJSON {
				return printJSON(a.Out, j)
			}
			if len(j.Steps) == 0 && len(j.Silent) == 0 {
				ask := "ask by order id, event id or trace id"
				if len(j.Unsearched) > 0 {
					ask = fmt.Sprintf("the outbox of %s can be asked by event id only (lean layout)", strings.Join(j.Unsearched, ", "))
				}
				return finding(fmt.Errorf("nothing is known of %q in %s; %s", args[0], strings.Join(fed.Names(), ", "), ask))
			}
			return printTrail(a.Out, j)
		},
	}
	from.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func printTrail(w io.Writer, j govern.Journey) error {
	last := ""
	for _, s := range j.Steps {
		if s.EventID != last {
			if _, err := fmt.Fprintf(w, "%s  %s  key %s\n", legible(s.EventType), legible(s.EventID), legible(s.Key)); err != nil {
				return err
			}
			last = s.EventID
		}
		if _, err := fmt.Fprintf(w, "  %s  %-11s %-22s %s\n", s.At.UTC().Format("15:04:05.000"), s.Stage, legible(where(s)), note(s)); err != nil {
			return err
		}
	}
	for _, name := range j.Unsearched {
		if _, err := fmt.Fprintf(w, "! the outbox of %s was not searched by this id (lean layout): events that stand only there are found by event id\n", name); err != nil {
			return err
		}
	}
	for _, name := range j.Silent {
		if _, err := fmt.Fprintf(w, "! %s did not answer; its part is missing\n", name); err != nil {
			return err
		}
	}
	return nil
}

func where(s govern.Step) string {
	if s.Group != "" && s.Group != s.Service {
		return s.Service + "/" + s.Group
	}
	return s.Service
}

func note(s govern.Step) string {
	var parts []string
	if s.Broker.Topic != "" {
		parts = append(parts, fmt.Sprintf("%s[%d]@%d", s.Broker.Topic, s.Broker.Partition, s.Broker.Offset))
	}
	if s.Stage == govern.StageChecked {
		parts = append(parts, count(s.Attempts, "time", "times"))
	} else if s.Attempts > 1 || (s.Attempts == 1 && s.Stage != govern.StageApplied && s.Stage != govern.StageCompensated && s.Stage != govern.StagePublished) {
		parts = append(parts, fmt.Sprintf("attempt %d", s.Attempts))
	}
	if s.NextAt != nil {
		parts = append(parts, "next "+s.NextAt.UTC().Format("15:04:05"))
	}
	if s.By != "" {
		parts = append(parts, "by "+legible(s.By))
	}
	if s.Note != "" {
		parts = append(parts, legible(s.Note))
	}
	return strings.Join(parts, ", ")
}
