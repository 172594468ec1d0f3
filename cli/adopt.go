package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/store/migrate"
)

// adopting are the flags of migrate --adopt.
type adopting struct {
	adopt, yes, again, asJSON, project bool
	table, zone, topic, payload, log   string
	topicOf, status, logStatus         []string
	wait                               time.Duration

	set *pflag.FlagSet
}

func (as *adopting) flags(c *cobra.Command) {
	f := pflag.NewFlagSet("adopt", pflag.ContinueOnError)
	f.BoolVar(&as.yes, "yes", false, "adopt: do what the plan says")
	f.BoolVar(&as.again, "again", false, "adopt: begin anew with an adopted table on which another relay has worked since")
	f.BoolVar(&as.asJSON, "json", false, "adopt: print the plan as JSON")
	f.StringVar(&as.table, "table", "", "adopt: the table with its schema or database (default public.t_outbox_event, or t_outbox_event in the database of the URL)")
	f.StringVar(&as.log, "consume-log", "", "adopt: the consume log that foreign consumers share, with its schema or database (default t_message_consume_log beside the table where it has the classic columns)")
	f.StringArrayVar(&as.logStatus, "consume-status", nil, "adopt: a word that the consume log's status has, as KIND=WORD; kinds are success, processing, failed; may be repeated")
	f.StringVar(&as.zone, "zone", "", "adopt: time zone of columns that have none (default: that of the database session)")
	f.StringVar(&as.topic, "topic", "", "adopt: topic of events for which --topic-of has none (default order-domain-event)")
	f.StringArrayVar(&as.topicOf, "topic-of", nil, "adopt: topic of an event type or aggregate type, as TYPE=TOPIC; may be repeated")
	f.StringArrayVar(&as.status, "status", nil, "adopt: a word that the status column has, as KIND=WORD; kinds are pending, retry, in-flight, sent, dead; may be repeated")
	f.StringVar(&as.payload, "payload", "", "adopt: envelope if payloads are whole envelopes, body if not (default: what the newest rows show)")
	f.BoolVar(&as.project, "project", true, "adopt: write what becomes of a row into its status")
	f.DurationVar(&as.wait, "wait", time.Minute, "adopt: how long to wait for open transactions where the status has no index")
	as.set = f
	c.Flags().BoolVar(&as.adopt, "adopt", false, "read an outbox table of another owner as it stands")
	c.Flags().AddFlagSet(f)
}

// check refuses flags of adopt without it.
func (as *adopting) check(c *cobra.Command) error {
	var wrong string
	as.set.VisitAll(func(f *pflag.Flag) {
		if !as.adopt && c.Flags().Changed(f.Name) {
			wrong = f.Name
		}
	})
	if wrong != "" {
		return usagef("--%s belongs to --adopt", wrong)
	}
	return nil
}

func (as *adopting) config(c *pflag.FlagSet) (cfg migrate.AdoptConfig, err error) {
	cfg = migrate.AdoptConfig{Table: as.table, ConsumeLog: as.log, Zone: as.zone, Topic: as.topic, Payload: as.payload, Again: as.again, Wait: as.wait}
	if c.Changed("project") {
		cfg.Project = &as.project
	}
	if as.payload != "" && as.payload != migrate.PayloadEnvelope && as.payload != migrate.PayloadBody {
		return cfg, usagef("--payload %s: it is envelope or body", as.payload)
	}
	if as.wait <= 0 {
		return cfg, usagef("--wait %s: it must be above 0", as.wait)
	}
	if as.topic != "" {
		if err := checkTopic("topic", as.topic); err != nil {
			return cfg, err
		}
	}
	for _, given := range as.topicOf {
		name, topic, ok := strings.Cut(given, "=")
		if !ok || name == "" || topic == "" {
			return cfg, usagef("--topic-of %s: want TYPE=TOPIC, for instance order.created=orders", given)
		}
		if err := checkTopic("topic-of", topic); err != nil {
			return cfg, err
		}
		if cfg.TopicOf == nil {
			cfg.TopicOf = map[string]string{}
		}
		cfg.TopicOf[name] = topic
	}
	cfg.Status, err = kindWords("status", as.status, migrate.StatusPending, migrate.StatusRetry, migrate.StatusInFlight, migrate.StatusSent, migrate.StatusDead)
	if err == nil {
		cfg.ConsumeStatus, err = kindWords("consume-status", as.logStatus, migrate.ConsumeSuccess, migrate.ConsumeProcessing, migrate.ConsumeFailed)
	}
	return cfg, err
}

// checkTopic refuses a topic that no event can have.
func checkTopic(flag, topic string) error {
	var wrong *settle.InvalidEventError
	now := time.Now()
	e := settle.Event{ID: "e", Type: "x", AggregateID: "k", Topic: topic, Payload: []byte("{}"), OccurredAt: now, AppendedAt: now}
	if err := e.Validate(); errors.As(err, &wrong) {
		return usagef("--%s %q: a topic that %s", flag, topic, wrong.Reason)
	}
	return nil
}

// kindWords reads the words given for kinds of status.
func kindWords(flag string, given []string, kinds ...string) (words map[string][]string, err error) {
	for _, pair := range given {
		kind, word, ok := strings.Cut(pair, "=")
		if !ok || !slices.Contains(kinds, kind) || word == "" {
			return nil, usagef("--%s %s: want KIND=WORD, the kinds are %s", flag, pair, strings.Join(kinds, ", "))
		}
		for other, taken := range words {
			if other != kind && slices.Contains(taken, word) {
				return nil, usagef("--%s %s: %s is said to be %s as well; a word has one meaning", flag, pair, word, other)
			}
		}
		if words == nil {
			words = map[string][]string{}
		}
		words[kind] = append(words[kind], word)
	}
	return words, nil
}

func (a *app) adopt(ctx context.Context, of *schemas, as *adopting, dryRun bool) error {
	if of.config != "" {
		return usagef("--adopt takes one database: --db URL")
	}
	named, _, err := of.named()
	if err != nil {
		return err
	}
	cfg, err := as.config(as.set)
	if err != nil {
		return err
	}
	adopter, err := dial.Adopt(named.Sources[""].DB, cfg)
	if err != nil {
		return classify(named.HideError(err))
	}
	switch {
	case dryRun:
		var text string
		if text, err = adopter.SQL(ctx); err == nil {
			_, err = fmt.Fprint(a.Out, text)
		}
	case as.yes:
		err = a.adoptNow(ctx, adopter, as.asJSON)
	default:
		err = a.adoptLater(ctx, adopter, as.asJSON)
	}
	if err != nil {
		return classify(named.HideError(err))
	}
	return nil
}

func (a *app) adoptLater(ctx context.Context, adopter dial.Adopter, asJSON bool) error {
	p, err := adopter.Plan(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(a.Out, p)
	} else if err = printAdoption(a.Out, p); err == nil && len(p.Refusals) == 0 {
		_, err = fmt.Fprintln(a.Out, "Nothing was changed; --yes does it, --dry-run prints the SQL.")
	}
	if err == nil && len(p.Refusals) > 0 {
		err = finding(fmt.Errorf("%s can't be adopted: %s", cmp.Or(p.Table, p.ConsumeLog, "the database"), strings.Join(p.Refusals, "; ")))
	}
	return err
}

func (a *app) adoptNow(ctx context.Context, adopter dial.Adopter, asJSON bool) error {
	p, err := adopter.Run(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(a.Out, p)
	}
	if err := printAdoption(a.Out, p); err != nil {
		return err
	}
	verb := "adopted"
	if p.Adopted {
		verb = "read as said above, by processes that start from now on"
	}
	_, err = fmt.Fprintf(a.Out, "%s is %s. Settle's URL for it is the one given with %s.\n", cmp.Or(p.Table, p.ConsumeLog), verb, p.Reach)
	return err
}

// printAdoption tells a plan.
func printAdoption(w io.Writer, p migrate.AdoptPlan) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	whole := len(p.Refusals) == 0 && p.Table != ""
	line("table", "%s; Settle's own tables are in %s", cmp.Or(p.Table, p.ConsumeLog), p.Place)
	for _, c := range p.Columns {
		line("column", "%s %s: %s", c.Name, c.Type, c.Read)
	}
	if len(p.Refusals) == 0 {
		line("times", "without a zone are of %s", p.Zone)
	}
	if whole {
		line("payload", "is the %s", map[string]string{migrate.PayloadEnvelope: "whole envelope and travels as it is", migrate.PayloadBody: "body and travels in an envelope"}[p.Payload])
		line("topic", "%s", strings.Join(p.Topics, ", "))
		line("ids", "%s; the highest is %d", p.IDs, p.HighestID)
	}
	for _, s := range p.Statuses {
		line("status", "%s: %s, %s rows", s.Word, legibleKind(s.Kind), upTo(s.Rows))
	}
	if whole && !p.Adopted {
		line("send", "%s rows: %s of them when their time has come, %s as retries of keys that wait", upTo(p.Send), upTo(p.Delayed), upTo(p.Retry))
		line("leave", "%s rows as they are", upTo(p.Leave))
	}
	if whole {
		line("write", "%s", map[bool]string{true: "what becomes of a row into its status", false: "nothing into the table"}[p.Project])
	}
	if p.ConsumeLog != "" {
		line("consumers", "share %s", p.ConsumeLog)
	}
	for _, s := range p.ConsumeStatuses {
		line("consumed", "%s: %s, %d of the newest rows", s.Word, legibleKind(s.Kind), s.Rows)
	}
	for _, h := range p.Holders {
		line("open", "%s", h)
	}
	for _, c := range p.Changes {
		line("change", "%s", c)
	}
	for _, n := range p.Notes {
		line("note", "%s", n)
	}
	for _, r := range p.Refusals {
		line("refused", "%s", r)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func legibleKind(kind string) string {
	if kind == "" {
		return "unknown"
	}
	return kind
}

func upTo(n int64) string {
	if n >= migrate.CountLimit {
		return fmt.Sprintf("%d or more", n)
	}
	return fmt.Sprint(n)
}
