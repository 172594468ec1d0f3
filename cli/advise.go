package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/advise"
)

// question is what advise wants to know: a flag, or a prompt on a terminal.
type question struct {
	flag, asks, otherwise string
	// needed questions have no answer of their own.
	needed bool
	take   func(c *advise.Case, answer string) error
}

func questions() []question {
	return []question{
		{"value", "what an event is worth: high (none may be lost) or low (one may be lost now and then)", "", true,
			func(c *advise.Case, s string) error { c.Value = advise.Value(s); return c.Check() }},
		{"order", "the order of events with one key: key (one after the other) or none", "", true,
			func(c *advise.Case, s string) error { c.Order = advise.Order(s); return c.Check() }},
		{"rate", "events per second at the busiest", "", true, takeRate},
		{"delay", "how long after its commit an event may come, as 10ms or 2s", "1s", false, takeDelay},
		{"broker-away", "the business while the broker is away: go-on or refuse", string(advise.AwayGoOn), false,
			func(c *advise.Case, s string) error { c.Away = advise.Away(s); return c.Check() }},
		{"broker", "brokers at hand, with commas between: " + strings.Join(advise.Brokers(), ", ") + "; or none", "none", false,
			func(c *advise.Case, s string) error { c.Brokers = namesOf(s); return c.Check() }},
		{"db", "databases at hand, with commas between: " + strings.Join(advise.Databases(), ", ") + "; or none", "none", false,
			func(c *advise.Case, s string) error { c.Databases = namesOf(s); return c.Check() }},
		{"team", "who runs it: small (nobody whose work it is) or platform (people for servers of several nodes)", string(advise.TeamSmall), false,
			func(c *advise.Case, s string) error { c.Team = advise.Team(s); return c.Check() }},
	}
}

func takeRate(c *advise.Case, s string) (err error) {
	if c.Rate, err = strconv.ParseFloat(s, 64); err != nil || !(c.Rate > 0) {
		return fmt.Errorf("rate is %q; it is a number of events per second, more than 0", s)
	}
	return c.Check()
}

func takeDelay(c *advise.Case, s string) (err error) {
	if c.Delay, err = time.ParseDuration(s); err != nil || c.Delay <= 0 {
		return fmt.Errorf("delay is %q; it is a time such as 10ms or 2s, more than 0", s)
	}
	return c.Check()
}

// namesOf reads a list; none is empty.
func namesOf(s string) (names []string) {
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); name != "" && name != "none" {
			names = append(names, name)
		}
	}
	return names
}

func (a *app) adviseCommand() *cobra.Command {
	var asJSON bool
	all := questions()
	answers := make([]string, len(all))
	c := &cobra.Command{
		Use:   "advise",
		Short: "Say which scheme, broker and settings fit a use case, and why",
		Long: "Advise asks for a use case, by flags or on a terminal one question after the other, and answers with a scheme (outbox,\n" +
			"transactional messages, direct send), a broker, a database and settings, with the reasons, and with what can be lost all\n" +
			"the same. It decides by tables; nothing is contacted.",
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			var of advise.Case
			if err := a.ask(c, all, answers, &of); err != nil {
				return err
			}
			advice, err := advise.For(of)
			if err != nil {
				return usagef("%w", err)
			}
			if asJSON {
				return printJSON(a.Out, advice)
			}
			return printAdvice(a.Out, advice)
		},
	}
	for i, q := range all {
		use := q.asks
		if q.otherwise != "" {
			use += " (default " + q.otherwise + ")"
		}
		c.Flags().StringVar(&answers[i], q.flag, "", use)
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// ask takes the answers from flags, or else from whoever sits at a terminal.
// Without one, what is needed has to be said by flags.
func (a *app) ask(c *cobra.Command, all []question, answers []string, of *advise.Case) error {
	terminal := a.asks()
	in := bufio.NewScanner(io.LimitReader(a.In, 64<<10))
	var missing []string
	for i, q := range all {
		switch said := c.Flags().Changed(q.flag); {
		case said:
			if err := q.take(of, strings.TrimSpace(answers[i])); err != nil {
				return usagef("--%s: %w", q.flag, err)
			}
		case terminal:
			if err := a.prompt(in, q, of); err != nil {
				return err
			}
		case q.needed:
			missing = append(missing, "--"+q.flag)
		}
	}
	if len(missing) > 0 {
		return usagef("say %s; without a terminal nothing can be asked (see `settle advise --help`)", strings.Join(missing, ", "))
	}
	return nil
}

// asks reports whether somebody can be asked.
func (a *app) asks() bool {
	out, is := a.In.(io.Writer)
	return is && isTerminal(out) && isTerminal(a.Err)
}

// prompt asks until the answer is one. The end of input ends it.
func (a *app) prompt(in *bufio.Scanner, q question, of *advise.Case) error {
	for {
		_, _ = fmt.Fprintf(a.Err, "%s", q.asks)
		if q.otherwise != "" {
			_, _ = fmt.Fprintf(a.Err, " [%s]", q.otherwise)
		}
		_, _ = fmt.Fprint(a.Err, ": ")
		if !in.Scan() {
			return usagef("%w", errors.Join(errors.New("the questions were not answered to their end; say --"+q.flag), in.Err()))
		}
		answer, before := strings.TrimSpace(in.Text()), *of
		if answer == "" {
			answer = q.otherwise
		}
		err := errors.New("there is no default")
		if answer != "" {
			err = q.take(of, answer)
		}
		if err == nil {
			return nil
		}
		*of = before
		_, _ = fmt.Fprintf(a.Err, "%s\n", legibleLines(err.Error(), ""))
	}
}

func printAdvice(out io.Writer, a advise.Advice) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Take %s, with %s and %s.\n", inWords[a.Scheme], inWords[a.Broker], inWords[a.Database])
	b.WriteString("\nWhy\n")
	for _, r := range a.Reasons {
		fmt.Fprintf(&b, "  %-10s %s\n", r.Of, r.Why)
	}
	b.WriteString("\nSet\n")
	for _, s := range a.Settings {
		fmt.Fprintf(&b, "  %s: %s\n      %s\n", s.Where, s.Value, s.Why)
	}
	b.WriteString("\nWhat can be lost, or late\n")
	for _, l := range a.CanLose {
		fmt.Fprintf(&b, "  %s\n", l)
	}
	b.WriteString("\nWhy not\n")
	for _, r := range a.Instead {
		fmt.Fprintf(&b, "  %-10s %s\n", r.Of, r.Why)
	}
	fmt.Fprintf(&b, "\nRead %s\n", strings.Join(a.Read, ", "))
	_, err := io.WriteString(out, b.String())
	return err
}

var inWords = map[string]string{
	advise.Outbox: "the outbox", advise.TxMsg: "transactional messages", advise.Direct: "direct send with stored retries",
	advise.Kafka: "Kafka", advise.RabbitMQ: "RabbitMQ", advise.RocketMQ: "RocketMQ", advise.NATS: "NATS JetStream", advise.Embedded: "the embedded JetStream",
	advise.PostgreSQL: "PostgreSQL", advise.MySQL: "MySQL or MariaDB", advise.SQLite: "SQLite",
}
