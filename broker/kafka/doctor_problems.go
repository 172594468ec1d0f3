package kafka

import (
	"fmt"
	"slices"
	"strings"

	"github.com/settlemq/settle/doctor"
)

// namedAtMost bounds the names that a finding lists, and the commands of its
// fix.
const namedAtMost = 10

// problems collects what one check has found of many topics: what is the same
// is said once, with the names.
type problems struct {
	verdict doctor.Verdict
	found   []string
	names   map[string][]string
	fixes   []string
}

func (p *problems) add(verdict doctor.Verdict, name, found, fix string) {
	p.verdict = worse(p.verdict, verdict)
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

// diagnosis is good where nothing was found.
func (p *problems) diagnosis(good string, args ...any) diagnosis {
	if len(p.found) == 0 {
		return sound(good, args...)
	}
	var found []string
	for _, text := range p.found {
		found = append(found, text+": "+enumerated(p.names[text]))
	}
	return diagnosis{p.verdict, strings.Join(found, "; "), strings.Join(firsts(p.fixes, "; "), "; ")}
}

// enumerated lists names, and counts those that are too many to be listed.
func enumerated(names []string) string { return strings.Join(firsts(names, ""), ", ") }

func firsts(list []string, sep string) []string {
	if len(list) <= namedAtMost {
		return list
	}
	rest := fmt.Sprintf("and %d more", len(list)-namedAtMost)
	if sep != "" {
		rest += " of the same kind"
	}
	return append(slices.Clone(list[:namedAtMost]), rest)
}
