package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/doctor"
)

// sourceFinding is a finding of one source.
type sourceFinding struct {
	Source string `json:"source,omitempty"`
	doctor.Finding
}

func (a *app) doctorCommand() *cobra.Command {
	var (
		of               examined
		lax, why, asJSON bool
	)
	c := &cobra.Command{
		Use:   "doctor --db URL | --broker URL",
		Short: "Examine a database or a broker: is it safe to rely on, and what mends it",
		Long: "Doctor looks at a database, a broker or both and changes nothing: settings, tables, topics, rights, other relays,\n" +
			"clocks. Each finding has a verdict, says why it matters, and how to mend it. It ends with 1 when something is bad, so\n" +
			"that a deployment can stop there; --lax ends with 0 then. What can't be reached ends it with 3.\n\n" +
			"Of brokers Kafka, RabbitMQ, NATS and RocketMQ are examined: the topics named with --topic, or else all that can be\n" +
			"seen. With -c it is every source's database and broker; the topics are those that the source names, or else all.",
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			findings, worst, unreached, err := of.examine(c.Context())
			if err != nil {
				return err
			}
			if err := a.printFindings(findings, asJSON, why); err != nil {
				return err
			}
			switch {
			case unreached != nil:
				return unreachablef("%w", unreached)
			case worst == doctor.Bad && !lax:
				return finding(errors.New("something is bad: what Settle promises does not hold until it is mended (--lax goes on)"))
			}
			return nil
		},
	}
	of.flags(c)
	c.Flags().BoolVar(&lax, "lax", false, "end with 0 also when something is bad")
	c.Flags().BoolVar(&why, "why", false, "say why it matters also for what is sound")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON array of all findings")
	return c
}

func (a *app) printFindings(findings []sourceFinding, asJSON, why bool) error {
	if asJSON {
		return printJSON(a.Out, findings)
	}
	for _, f := range findings {
		if f.Source != "" {
			f.Source += " "
		}
		// SQL that mends something is to be read and copied whole.
		line := fmt.Sprintf("%-4s  %s%s: %s\n", f.Verdict, f.Source, f.Check, escaped(oneLine(f.Found)))
		if why || f.Verdict != doctor.OK {
			line += "      why: " + f.Why + "\n"
		}
		if f.Fix != "" {
			line += "      fix: " + escaped(oneLine(f.Fix)) + "\n"
		}
		if _, err := fmt.Fprint(a.Out, line); err != nil {
			return err
		}
	}
	return nil
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
