package adopt

import (
	"fmt"
	"time"
)

// FixedOffset returns a zone as an offset, +08:00, if it has had one and the same
// for ten years, and is known to have it for ten more.
func FixedOffset(zone string) (offset string, fixed bool) {
	at, err := time.LoadLocation(zone)
	if err != nil || zone == "" || zone == "Local" {
		return "", false
	}
	now := time.Now()
	_, first := now.In(at).Zone()
	for month := -120; month <= 120; month++ {
		if _, is := now.AddDate(0, month, 0).In(at).Zone(); is != first {
			return "", false
		}
	}
	sign := '+'
	if first < 0 {
		sign, first = '-', -first
	}
	return fmt.Sprintf("%c%02d:%02d", sign, first/3600, first/60%60), true
}
