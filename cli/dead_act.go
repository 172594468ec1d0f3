package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/govern"
)

// deadAct holds what replay, compensate and discard have in common.
type deadAct struct {
	from        sources
	which       deadFilter
	by, reason  string
	yes, asJSON bool
}

func (d *deadAct) flags(c *cobra.Command) {
	d.from.flags(c)
	d.which.flags(c)
	d.which.state = govern.StateOpen
	c.Flags().StringVar(&d.by, "by", "", "who acts, for the audit log (default: your user name)")
	c.Flags().StringVar(&d.reason, "reason", "", "why, for the audit log")
	c.Flags().BoolVar(&d.yes, "yes", false, "act on all that the filter selects")
	c.Flags().BoolVar(&d.asJSON, "json", false, "print a JSON array, one object per dead letter")
}

func (d *deadAct) run(c *cobra.Command, a *app, words []string, b bulk) error {
	f, err := d.which.filter()
	if err != nil {
		return err
	}
	if len(words) > 0 && (d.which.group != "" || d.which.eventType != "" || d.which.class != "" || d.which.key != "") {
		return usagef("name dead letters, or select them by flags, not both")
	}
	d.from.crash = a.Crash
	fed, done, err := d.from.open(c.Context())
	if err != nil {
		return err
	}
	defer done()
	b.yes = d.yes
	outcomes, err := b.run(c.Context(), a, fed, words, f)
	if err != nil {
		return err
	}
	return a.report(b.verb, outcomes, d.asJSON)
}

func (a *app) deadReplayCommand() *cobra.Command {
	var (
		d         deadAct
		duplicate bool
		to        string
	)
	c := &cobra.Command{
		Use:   "replay [SERVICE:ID …]",
		Short: "Let dead letters be tried again, once their cause is cured",
		Long: "Replay makes dead letters due again, from their first attempt, with those that wait behind them.\n" +
			"One of a consumer that is not ours goes back to its group alone, or with --to origin to where it came from, where\n" +
			"every group receives it again: settle serve sends it, and REPLAYED means that the broker has it.\n" +
			"Name them, or select open ones by flags: without --yes the command only tells how many there are.",
		RunE: func(c *cobra.Command, words []string) error {
			if to != "" && to != string(govern.ToGroup) && to != string(govern.ToOrigin) {
				return usagef("--to is %q; it can be %s or %s", to, govern.ToGroup, govern.ToOrigin)
			}
			return d.run(c, a, words, bulk{verb: "replay", do: func(ctx context.Context, s govern.Store, ids []int64) ([]govern.Outcome, error) {
				return s.Replay(ctx, act(d.by, d.reason), govern.ReplayOptions{AcceptPossibleDuplicate: duplicate, To: govern.Target(to)}, ids...)
			}})
		},
	}
	d.flags(c)
	c.Flags().StringVar(&to, "to", "", "how far dead letters of consumers that are not ours go back: group (the default) or origin")
	c.Flags().BoolVar(&duplicate, "accept-possible-duplicate", false, "replay events older than the dedup window too, and those whose compensation was tried and failed")
	return c
}

func (a *app) deadCompensateCommand() *cobra.Command {
	var d deadAct
	c := &cobra.Command{
		Use:   "compensate [SERVICE:ID …]",
		Short: "Give up on dead letters whose effect can never be had, and undo what may have happened of them",
		Long: "Compensate gives up on dead letters: what their service has registered as compensation runs instead of the handler,\n" +
			"once, with retries. It undoes what may have happened of the event and tells the other services; what waits behind\n" +
			"goes on then. A group without a compensation for the event type opens the letter again and says so; where there is\n" +
			"nothing to undo, discard. Name them, or select open ones by flags: without --yes the command only tells how many.",
		RunE: func(c *cobra.Command, words []string) error {
			if d.reason == "" {
				return usagef("settle dead compensate needs --reason: it is kept in the audit log")
			}
			return d.run(c, a, words, bulk{verb: "compensate", do: func(ctx context.Context, s govern.Store, ids []int64) ([]govern.Outcome, error) {
				return s.Compensate(ctx, act(d.by, d.reason), ids...)
			}})
		},
	}
	d.flags(c)
	return c
}

func (a *app) deadDiscardCommand() *cobra.Command {
	var d deadAct
	c := &cobra.Command{
		Use:   "discard [SERVICE:ID …]",
		Short: "Close dead letters for good and let those behind them go on",
		Long: "Discard closes dead letters without doing anything about them. What may have happened of the event stays,\n" +
			"and no other service is told; `settle dead compensate` does both. Name them, or select open ones by flags:\n" +
			"without --yes the command only tells how many there are.",
		RunE: func(c *cobra.Command, words []string) error {
			if d.reason == "" {
				return usagef("settle dead discard needs --reason: it is kept in the audit log")
			}
			return d.run(c, a, words, bulk{verb: "discard", do: func(ctx context.Context, s govern.Store, ids []int64) ([]govern.Outcome, error) {
				return s.Discard(ctx, act(d.by, d.reason), ids...)
			}})
		},
	}
	d.flags(c)
	return c
}
