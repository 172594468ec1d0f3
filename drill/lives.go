package drill

import "fmt"

// Lives says how often a child was started, and how often it ended by itself.
type Lives struct {
	Name    string
	Started int
	// Failed counts ends that were neither asked for nor a SIGKILL; Last is how
	// the last of them ended.
	Failed int
	Last   string
}

// livesInvariant is the invariant that processes end only when somebody ends them.
func livesInvariant(lives []Lives) Invariant {
	inv := Invariant{ID: "P1", Name: "no process ended by itself: whatever failed around it, it went on"}
	for _, l := range lives {
		inv.Checked += int64(l.Started)
		if l.Failed > 0 {
			inv.Violations += int64(l.Failed)
			inv.Examples = append(inv.Examples, fmt.Sprintf("%s ended by itself %s: %s", l.Name, times(l.Failed, "time"), l.Last))
		}
	}
	return inv
}
