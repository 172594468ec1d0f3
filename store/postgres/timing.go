package postgres

import (
	"strconv"
	"time"
)

// ms is a time-out as the server's settings take it.
func ms(d time.Duration) string { return strconv.FormatInt(max(1, d.Milliseconds()), 10) }
