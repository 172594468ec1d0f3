package bridgelog

import (
	"cmp"
	"fmt"
	"time"
)

// Step is when a letter died at a consumer that is not ours, and what a trail
// says of it.
func Step(group, why string, died, bridged time.Time, before int64) (at time.Time, note string) {
	note = fmt.Sprintf("dead at the consumer group %s (not ours), bridged at %s: %s", group, bridged.UTC().Format(time.RFC3339), why)
	if before != 0 {
		note += fmt.Sprintf("; it died again after dead letter %d was replayed", before)
	}
	return cmp.Or(died, bridged), note
}
