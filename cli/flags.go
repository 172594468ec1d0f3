package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagHint names the flags a command has.
func flagHint(c *cobra.Command) string {
	var names []string
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	if len(names) == 0 {
		return c.CommandPath() + " takes no flags"
	}
	return "the flags of " + c.CommandPath() + " are " + strings.Join(names, ", ")
}
