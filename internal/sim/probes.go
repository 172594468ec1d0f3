package sim

import (
	"maps"
	"slices"
)

// Probes count how often something interesting happened. A simulation that
// never reaches a place proves nothing about it: see TestEveryProbeIsHit.
type Probes map[string]int

func (p Probes) hit(name string) { p[name]++ }

// Add counts q's hits too.
func (p Probes) Add(q Probes) {
	for name, n := range q {
		p[name] += n
	}
}

// Names returns the probes that were hit, sorted.
func (p Probes) Names() []string { return slices.Sorted(maps.Keys(p)) }

// Expected are the places that a run of many seeds must have come to.
var Expected = []string{}
