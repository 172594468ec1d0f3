package deadletter

import "strings"

// Cut returns s as text of at most limit bytes: what is longer is cut at the end
// of a character, and ends in "…".
func Cut(s string, limit int) string {
	const more = "…"
	if len(s) > 2*limit { // the rest of what may have megabytes is not looked at
		s = s[:2*limit]
	}
	if s = Text(s); len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len(more)], "") + more
}
