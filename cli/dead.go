package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
)

func (a *app) deadCommand() *cobra.Command {
	return group("dead", "List, show, replay, compensate and discard dead letters",
		a.deadListCommand(), a.deadShowCommand(), a.deadReplayCommand(), a.deadCompensateCommand(), a.deadDiscardCommand())
}

// deadFilter holds the flags that select dead letters.
type deadFilter struct {
	group, eventType, class, key, state string
	limit                               int
}

func (f *deadFilter) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.group, "group", "", "only of this consumer group")
	c.Flags().StringVar(&f.eventType, "type", "", "only of this event type")
	c.Flags().StringVar(&f.class, "class", "", "only of this class, for instance handler_error")
	c.Flags().StringVar(&f.key, "key", "", "only with this order id, business key, event id or trace id")
	c.Flags().IntVar(&f.limit, "limit", 100, "at most so many of each service")
}

func (f *deadFilter) filter() (govern.Filter, error) {
	if f.limit < 1 || f.limit > 10_000 {
		return govern.Filter{}, usagef("--limit is %d; it must be 1 to 10000", f.limit)
	}
	return govern.Filter{State: f.state, Group: f.group, EventType: f.eventType, Class: settle.Class(f.class), Key: f.key, Limit: f.limit}, nil
}

func (a *app) deadListCommand() *cobra.Command {
	var (
		from   sources
		which  deadFilter
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, oldest first",
		Args:  exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := which.filter()
			if err != nil {
				return err
			}
			fed, done, err := from.open(c.Context())
			if err != nil {
				return err
			}
			defer done()
			letters, err := fed.DeadLetters(c.Context(), f)
			if err != nil {
				return unreachablef("list dead letters: %w", err)
			}
			a.tellLimit(letters, f.Limit)
			if asJSON {
				return printJSON(a.Out, letters)
			}
			return printDead(a.Out, letters)
		},
	}
	from.flags(c)
	which.flags(c)
	c.Flags().StringVar(&which.state, "state", govern.StateOpen, "OPEN, REPLAYING, REPLAYED, COMPENSATING, COMPENSATED, DISCARDED, SUPERSEDED or any")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return c
}

// tellLimit names the services that may have more letters than were asked for.
func (a *app) tellLimit(letters []govern.DeadLetter, limit int) {
	found := map[string]int{}
	for _, d := range letters {
		if found[d.Service]++; found[d.Service] == limit {
			_, _ = fmt.Fprintf(a.Err, "only the first %d of %s are taken; --limit takes more\n", limit, d.Service)
		}
	}
}

func printDead(w io.Writer, letters []govern.DeadLetter) error {
	if len(letters) == 0 {
		_, err := fmt.Fprintln(w, "no dead letters")
		return err
	}
	for _, d := range letters {
		whose := ""
		if d.Foreign {
			whose = ", at " + legible(d.Group) + " (not ours)"
		}
		if d.Transaction != "" {
			whose = ", a half message"
		}
		if _, err := fmt.Fprintf(w, "%-14s %-9s %-18s %-20s key %-14s %11s, %d behind, since %s%s: %s\n",
			letterID(d), d.State, d.Class, legible(d.EventType), legible(d.Key), count(d.Attempts, "attempt", "attempts"), d.Behind, d.OpenedAt.UTC().Format(time.DateTime), whose, legible(d.Reason)); err != nil {
			return err
		}
	}
	return nil
}

// letterID is how people name a dead letter: service:number.
func letterID(d govern.DeadLetter) string { return d.Service + ":" + strconv.FormatInt(d.ID, 10) }

func (a *app) deadShowCommand() *cobra.Command {
	var (
		from   sources
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "show SERVICE:ID",
		Short: "Show one dead letter with its payload",
		Args:  exactly(1, "one dead letter, for instance inventory:3"),
		RunE: func(c *cobra.Command, args []string) error {
			fed, done, err := from.open(c.Context())
			if err != nil {
				return err
			}
			defer done()
			ids, err := pick(fed, args)
			if err != nil {
				return err
			}
			service, _, _ := strings.Cut(args[0], ":")
			store, _ := fed.Store(service)
			d, err := store.DeadLetter(c.Context(), ids[service][0])
			switch {
			case errors.Is(err, govern.ErrNotFound):
				return finding(fmt.Errorf("there is no dead letter %s; `settle dead list --state any` shows those there are", args[0]))
			case err != nil:
				return unreachablef("show %s: %w", args[0], err)
			}
			d.Service = service
			if asJSON {
				return printJSON(a.Out, d)
			}
			return printLetter(a.Out, d)
		},
	}
	from.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// letterIndent is the width of the labels of a letter.
const letterIndent = "             "

func printLetter(w io.Writer, d govern.DeadLetter) error {
	body := d.Payload
	if len(body) == 0 {
		body = d.Raw
	}
	closed := ""
	if d.ClosedAt != nil {
		closed = fmt.Sprintf("closed       %s by %s\n", d.ClosedAt.UTC().Format(time.RFC3339), legible(d.ClosedBy))
	}
	if _, err := fmt.Fprintf(w, "dead letter  %s  %s\nevent        %s  %s\nkey          %s  (biz key %s, trace %s)\nclass        %s after %s\nreason       %s\nfound at     %s[%d]@%d\nbehind it    %s of the same key\nopened       %s, due %s\n%s",
		letterID(d), d.State, legible(d.EventType), legible(d.EventID), legible(d.Key), legible(d.BizKey), legible(d.TraceID), d.Class, count(d.Attempts, "attempt", "attempts"), legibleLines(d.Reason, letterIndent),
		d.Topic, d.Partition, d.Offset, count(d.Behind, "event", "events"), d.OpenedAt.UTC().Format(time.RFC3339), d.DueAt.UTC().Format(time.RFC3339), closed); err != nil {
		return err
	}
	if err := printBridged(w, d); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "payload      %s\n", legiblePayload(body, letterIndent))
	return err
}

// pick resolves SERVICE:ID words to the ids of each service.
func pick(fed *govern.Federation, words []string) (map[string][]int64, error) {
	ids := map[string][]int64{}
	for _, word := range words {
		name, number, ok := strings.Cut(word, ":")
		id, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil || id < 1 {
			return nil, usagef("%q does not name a dead letter; write SERVICE:ID, for instance inventory:3", word)
		}
		if _, ok := fed.Store(name); !ok {
			return nil, usagef("there is no service %q; there are %s", name, strings.Join(fed.Names(), ", "))
		}
		ids[name] = append(ids[name], id)
	}
	return ids, nil
}

// act is who does it, for the audit log.
func act(by, reason string) govern.Act {
	if by == "" {
		by = "unknown"
		if u, err := user.Current(); err == nil {
			by = u.Username
		}
	}
	return govern.Act{By: by, Reason: reason}
}

// bulk is one act on dead letters: those named, or those that a filter selects.
type bulk struct {
	verb string
	yes  bool
	do   func(ctx context.Context, s govern.Store, ids []int64) ([]govern.Outcome, error)
}

// letterOutcome is one line of the answer.
type letterOutcome struct {
	Letter string `json:"dead_letter"`
	Result string `json:"result"`
	Why    string `json:"why,omitempty"`
}

// run acts and returns one outcome per letter. Without --yes a filter only
// tells how many it selects.
func (b bulk) run(ctx context.Context, a *app, fed *govern.Federation, words []string, f govern.Filter) ([]letterOutcome, error) {
	chosen := map[string][]int64{}
	if len(words) > 0 {
		var err error
		if chosen, err = pick(fed, words); err != nil {
			return nil, err
		}
	} else {
		letters, err := fed.DeadLetters(ctx, f)
		if err != nil {
			return nil, unreachablef("select dead letters: %w", err)
		}
		for _, d := range letters {
			chosen[d.Service] = append(chosen[d.Service], d.ID)
		}
		a.tellLimit(letters, f.Limit)
		if !b.yes {
			_, _ = fmt.Fprintf(a.Err, "%s selected; say --yes to %s\n", count(len(letters), "open dead letter is", "open dead letters are"), b.verb)
			if len(letters) == 0 {
				return []letterOutcome{}, nil
			}
			return nil, &ExitError{Code: ExitFinding}
		}
	}
	outcomes := []letterOutcome{}
	for _, name := range fed.Names() {
		if len(chosen[name]) == 0 {
			continue
		}
		store, _ := fed.Store(name)
		done, err := b.do(ctx, store, chosen[name])
		if err != nil {
			return outcomes, unreachablef("%s in %s: %w", b.verb, name, err)
		}
		for _, o := range done {
			outcomes = append(outcomes, letterOutcome{Letter: name + ":" + strconv.FormatInt(o.ID, 10), Result: o.Result, Why: o.Why})
		}
	}
	return outcomes, nil
}

// report prints outcomes and fails when one was refused.
func (a *app) report(verb string, outcomes []letterOutcome, asJSON bool) error {
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
			if _, err := fmt.Fprintf(a.Out, "%-14s %s %s\n", o.Letter, o.Result, legible(o.Why)); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(a.Out, "%s: %d done, %d refused\n", verb, len(outcomes)-refused, refused); err != nil {
			return err
		}
	}
	if refused > 0 {
		return &ExitError{Code: ExitFinding}
	}
	return nil
}
