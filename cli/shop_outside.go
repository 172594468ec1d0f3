package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/examples/shop"
	"github.com/settlemq/settle/examples/shop/outside"
)

func (a *app) shopOutsideCommand() *cobra.Command {
	var dir string
	var asJSON bool
	how := outside.Misbehaviour{}
	c := &cobra.Command{
		Use:   "outside [SYSTEM[=MODE] …]",
		Short: "Show how the outside systems of a running shop behave, or let them misbehave",
		Long: "Outside shows how provider, coupons and carrier behave, what they were asked and have done, and how often\n" +
			"each really misbehaved. With a mode it lets one misbehave: slow (late answers), fail (500, nothing done), hang\n" +
			"(nothing done, no answer), lost (the work done, no answer), garbage (the work done, an answer without sense),\n" +
			"away (503). Several modes may stand, the newest that meets a request counts. ok ends them all, or with\n" +
			"--customers those that name these; they also end with the shop.",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, words []string) error {
			orders, err := outsideOrders(words, how, c.Flags().Changed("share"))
			if err != nil {
				return err
			}
			return a.tellOutside(c.Context(), dir, orders, asJSON)
		},
	}
	f := c.Flags()
	f.StringVar(&dir, "dir", ".", "directory of the shop")
	f.StringSliceVar(&how.Customers, "customers", nil, "only requests of these customers, with commas between (default: of all)")
	f.DurationVar(&how.For, "for", 0, "after how long it ends by itself (default: never)")
	f.DurationVar(&how.Delay, "delay", 0, "how late answers are in the mode slow (default: 300ms)")
	f.Float64Var(&how.Share, "share", 1, "part of the requests that are met")
	f.BoolVar(&asJSON, "json", false, "print a JSON array")
	return c
}

// outsideOrder is what a person wants of one system; without a mode, to see it.
type outsideOrder struct {
	system string
	outside.Misbehaviour
}

// outsideOrders reads SYSTEM and SYSTEM=MODE, and refuses all if one is wrong.
func outsideOrders(words []string, how outside.Misbehaviour, shared bool) ([]outsideOrder, error) {
	if shared && !(how.Share > 0 && how.Share <= 1) {
		return nil, usagef("--share is %v; it must be more than 0 and at most 1", how.Share)
	}
	var orders []outsideOrder
	told := false
	for _, w := range words {
		system, mode, tells := strings.Cut(w, "=")
		if err := outside.CheckSystem(system); err != nil {
			return nil, usagef("%w", err)
		}
		o := outsideOrder{system: system}
		if tells {
			o.Misbehaviour = how
			o.Mode = mode
			if err := o.Check(system); err != nil {
				return nil, usagef("%s: %w", w, err)
			}
		}
		told = told || tells
		orders = append(orders, o)
	}
	if !told && (shared || how.For != 0 || how.Delay != 0 || len(how.Customers) > 0) {
		return nil, usagef("--customers, --for, --delay and --share say how a system misbehaves; name it as SYSTEM=MODE, for instance coupons=hang")
	}
	if len(orders) == 0 {
		for _, system := range outside.Systems() {
			orders = append(orders, outsideOrder{system: system})
		}
	}
	return orders, nil
}

func (a *app) tellOutside(ctx context.Context, dir string, orders []outsideOrder, asJSON bool) error {
	var standings []outside.Standing
	for _, o := range orders {
		s, err := o.carryOut(ctx, dir)
		switch {
		case errors.Is(err, outside.ErrNotServing):
			return unreachablef("the %s of the shop in %s does not run; start the shop: settle shop --dir %s", o.system, dir, shellWords([]string{dir}))
		case err != nil:
			return unreachablef("%w", err)
		}
		standings = append(standings, s)
	}
	if asJSON {
		return printJSON(a.Out, standings)
	}
	for _, s := range standings {
		if _, err := fmt.Fprintln(a.Out, describeStanding(s)); err != nil {
			return err
		}
	}
	return nil
}

func (o outsideOrder) carryOut(ctx context.Context, dir string) (outside.Standing, error) {
	if o.Mode == "" {
		return outside.Inspect(ctx, dir, o.system)
	}
	return outside.Misbehave(ctx, dir, o.system, o.Misbehaviour)
}

// describeStanding is one system in a line: how it behaves, what it was asked
// and has done, how often it misbehaved.
func describeStanding(s outside.Standing) string {
	var rules, done, met []string
	for _, r := range slices.Backward(s.Rules) {
		rules = append(rules, describeRule(r))
	}
	if len(rules) == 0 {
		rules = []string{outside.ModeOK}
	}
	for _, kind := range slices.Sorted(maps.Keys(s.Ledger)) {
		text := fmt.Sprintf("%d × %s", s.Ledger[kind].Rows, kind)
		if cents := s.Ledger[kind].Cents; cents > 0 {
			text += " (" + shop.Cents(cents).String() + ")"
		}
		done = append(done, text)
	}
	for _, mode := range slices.Sorted(maps.Keys(s.Misbehaved)) {
		met = append(met, fmt.Sprintf("%d × %s", s.Misbehaved[mode], mode))
	}
	line := fmt.Sprintf("%-10s %s; asked %s", s.System, strings.Join(rules, ", else "), count(int(s.Asked), "time", "times"))
	if len(done) > 0 {
		line += "; ledger: " + strings.Join(done, ", ")
	}
	if len(met) > 0 {
		line += "; misbehaved: " + strings.Join(met, ", ")
	}
	return line
}

func describeRule(r outside.Misbehaviour) string {
	text := r.Mode
	if r.Mode == outside.ModeSlow {
		text += " by " + r.Delay.String()
	}
	if len(r.Customers) > 0 {
		text += " for " + strings.Join(r.Customers, " and ")
	}
	if r.Share < 1 {
		text += fmt.Sprintf(" in %.3g %% of the cases", 100*r.Share)
	}
	if r.For > 0 {
		text += ", " + r.For.Round(100*time.Millisecond).String() + " yet"
	}
	return text
}
