package consumelog

import "time"

// Date returns the zero time for one that not all databases and JSON can hold.
// The time of a record, or in a header, may be any that a foreign producer has
// written: what can't be kept for it would hold all behind it up for ever.
func Date(t time.Time) time.Time {
	if y := t.UTC().Year(); y < 1000 || y > 9999 {
		return time.Time{}
	}
	return t
}
