package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// group is a command that only holds others. An unknown word below it is
// wrong usage, named beside the right words.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q; the commands of %s are %s", args[0], c.CommandPath(), strings.Join(commandNames(c), ", "))
			}
			return c.Help()
		},
	}
	c.AddCommand(subs...)
	return c
}
