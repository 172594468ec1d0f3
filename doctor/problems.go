package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// namedAtMost bounds the names that a finding lists, and the commands of its
// fix.
const namedAtMost = 10

// Problems collects what one check has found of many names: what is the same
// is said once, with the names, and the worst verdict is that of all. The zero
// value is ready.
type Problems struct {
	verdict Verdict
	found   []string
	names   map[string][]string
	fixes   []string
}

// Add notes what was found of a name, and what mends it.
func (p *Problems) Add(verdict Verdict, name, found, fix string) {
	p.verdict = Worst([]Finding{{Verdict: p.verdict}, {Verdict: verdict}})
	if p.names == nil {
		p.names = map[string][]string{}
	}
	if _, is := p.names[found]; !is {
		p.found = append(p.found, found)
	}
	p.names[found] = append(p.names[found], name)
	if !slices.Contains(p.fixes, fix) {
		p.fixes = append(p.fixes, fix)
	}
}

// OnlyOf returns the number of names of which one and the same was found, 0 where
// there was more than one thing or none.
func (p *Problems) OnlyOf() int {
	if len(p.found) != 1 {
		return 0
	}
	return len(p.names[p.found[0]])
}

// Diagnosis is good where nothing was found.
func (p *Problems) Diagnosis(good string, args ...any) Diagnosis {
	if len(p.found) == 0 {
		return Sound(good, args...)
	}
	var found []string
	for _, text := range p.found {
		found = append(found, text+": "+Enumerated(p.names[text]))
	}
	return Diagnose(p.verdict, strings.Join(found, "; "), strings.Join(firsts(p.fixes, " of the same kind"), "; "))
}

// Enumerated lists names, and counts those that are too many to be listed.
func Enumerated(names []string) string { return strings.Join(firsts(names, ""), ", ") }

func firsts(list []string, what string) []string {
	if len(list) <= namedAtMost {
		return list
	}
	return append(slices.Clone(list[:namedAtMost]), fmt.Sprintf("and %d more%s", len(list)-namedAtMost, what))
}
