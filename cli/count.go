package cli

import "strconv"

// count writes a number and what there is of it, in the right form.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
