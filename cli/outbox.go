package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/govern"
)

func (a *app) outboxCommand() *cobra.Command {
	return group("outbox", "Send events of an outbox again, start a relay again after a restore, or change by how many it is read",
		a.outboxResendCommand(), a.outboxRestartCommand(), a.outboxAdoptCommand(), a.outboxLanesCommand())
}

func (a *app) outboxResendCommand() *cobra.Command {
	var (
		from       sources
		by, reason string
		asJSON     bool
	)
	c := &cobra.Command{
		Use:   "resend SERVICE EVENT_ID …",
		Short: "Send events again that were sent before",
		Long: "Resend lists sent events for the relay, which sends each once more within about a second, under the message id\n" +
			"EVENT_ID#1, #2, … so that the broker takes it for a new message. Consumers of Settle's know it by its event id and\n" +
			"apply it once all the same. What was not sent yet, is a dead letter or was deleted is refused, with what to do\n" +
			"instead; the command ends with 1 then. Each resend is kept in the audit log and shown by settle trail.",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usagef("write settle outbox resend SERVICE EVENT_ID …")
			}
			if reason == "" {
				return usagef("settle outbox resend needs --reason: it is kept in the audit log")
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
			outcomes, err := store.Resend(c.Context(), act(by, reason), args[1:]...)
			if err != nil {
				return unreachablef("%s: %w", c.CommandPath(), err)
			}
			return a.reportResent(outcomes, asJSON)
		},
	}
	from.flags(c)
	auditFlags(c, &by, &reason)
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON array, one object per event")
	return c
}

func (a *app) reportResent(outcomes []govern.Resent, asJSON bool) error {
	refused := 0
	for _, o := range outcomes {
		if o.Result != "done" {
			refused++
		}
	}
	if asJSON {
		if err := printJSON(a.Out, outcomes); err != nil {
			return err
		}
	} else {
		for _, o := range outcomes {
			said := "refused: " + legible(o.Why)
			if o.Result == "done" {
				said = "is sent again as " + legible(o.MessageID)
			}
			if _, err := fmt.Fprintf(a.Out, "%s %s\n", legible(o.EventID), said); err != nil {
				return err
			}
		}
	}
	if refused > 0 {
		return &ExitError{Code: ExitFinding}
	}
	return nil
}
