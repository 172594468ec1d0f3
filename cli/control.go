package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/govern"
)

// controlKinds are what can be paused, with what NAME is.
var controlKinds = []string{"relay", "topic", "group", "key"}

func (a *app) pauseCommand() *cobra.Command {
	return a.controlCommand("pause", "Pause a relay, a topic, a consumer group or a key",
		func(c *cobra.Command, s govern.Store, who govern.Act, kind, name string) error {
			known, err := s.Known(c.Context(), kind, name)
			if err != nil {
				return err
			}
			if !known {
				_, _ = fmt.Fprintf(a.Err, "that service knows no %s %s yet: check the name; it is paused should it start later\n", kind, legible(name))
			}
			return s.Pause(c.Context(), who, kind, name)
		})
}

func (a *app) resumeCommand() *cobra.Command {
	return a.controlCommand("resume", "Undo a pause",
		func(c *cobra.Command, s govern.Store, who govern.Act, kind, name string) error {
			return s.Resume(c.Context(), who, kind, name)
		})
}

func (a *app) controlCommand(verb, short string, do func(*cobra.Command, govern.Store, govern.Act, string, string) error) *cobra.Command {
	var (
		from       sources
		by, reason string
	)
	c := &cobra.Command{
		Use:   verb + " SERVICE KIND [NAME]",
		Short: short,
		Long: short + ".\nKIND is relay (no NAME), topic, group, or key (at a relay NAME is the key, at a consumer GROUP/KEY).\n" +
			"Every process of the service obeys within about a second; the act is audited.",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 || !slices.Contains(controlKinds, args[1]) || (args[1] == "relay") != (len(args) == 2) {
				return usagef("write settle %s SERVICE KIND [NAME] with KIND one of %s; relay takes no NAME, the others need one", verb, strings.Join(controlKinds, ", "))
			}
			name := ""
			if len(args) == 3 {
				name = args[2]
			}
			return a.onService(c, &from, args[0], func(s govern.Store) error {
				err := do(c, s, act(by, reason), args[1], name)
				if errors.Is(err, govern.ErrNotFound) {
					return finding(fmt.Errorf("%s %s of %s is not paused", args[1], name, args[0]))
				}
				return err
			}, verb+"d "+strings.TrimSpace(args[1]+" "+name)+" of "+args[0])
		},
	}
	from.flags(c)
	auditFlags(c, &by, &reason)
	return c
}

func (a *app) skipCommand() *cobra.Command {
	var (
		from       sources
		by, reason string
	)
	c := &cobra.Command{
		Use:   "skip SERVICE EVENT_ID",
		Short: "Let a relay pass one event that it has not sent",
		Args:  exactly(2, "a service and an event id"),
		RunE: func(c *cobra.Command, args []string) error {
			if reason == "" {
				return usagef("settle skip needs --reason: it is kept in the audit log")
			}
			return a.onService(c, &from, args[0], func(s govern.Store) error {
				err := s.Skip(c.Context(), act(by, reason), args[1])
				if errors.Is(err, govern.ErrNotFound) {
					return finding(fmt.Errorf("%s has no unsent event %s; `settle trail %s` shows where it is", args[0], args[1], args[1]))
				}
				return err
			}, "event "+args[1]+" will be passed by the relay of "+args[0])
		},
	}
	from.flags(c)
	auditFlags(c, &by, &reason)
	return c
}

func auditFlags(c *cobra.Command, by, reason *string) {
	c.Flags().StringVar(by, "by", "", "who acts, for the audit log (default: your user name)")
	c.Flags().StringVar(reason, "reason", "", "why, for the audit log")
}

// onService acts on one service's store and says what was done.
func (a *app) onService(c *cobra.Command, from *sources, service string, do func(govern.Store) error, said string) error {
	fed, done, err := from.open(c.Context())
	if err != nil {
		return err
	}
	defer done()
	store, err := serviceOf(fed, service)
	if err != nil {
		return err
	}
	if err := do(store); err != nil {
		var exit *ExitError
		if errors.As(err, &exit) {
			return err
		}
		return unreachablef("%s: %w", c.CommandPath(), err)
	}
	_, err = fmt.Fprintln(a.Out, said)
	return err
}

// serviceOf returns the store of one service.
func serviceOf(fed *govern.Federation, name string) (govern.Store, error) {
	store, ok := fed.Store(name)
	if !ok {
		return nil, usagef("there is no service %q; there are %s", name, strings.Join(fed.Names(), ", "))
	}
	return store, nil
}
