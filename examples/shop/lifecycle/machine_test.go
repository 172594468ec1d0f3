package lifecycle

import (
	"slices"
	"testing"
)

// holes lists every (state, input, condition) that a machine has no row for,
// or more than one. A condition that a state does not ask about is no hole.
func holes(m Machine) []string {
	var bad []string
	for _, state := range m.States() {
		for _, on := range m.Inputs() {
			rows := slices.DeleteFunc(slices.Clone(m.Rows), func(t Transition) bool { return t.From != state || t.On != on })
			always := slices.ContainsFunc(rows, func(t Transition) bool { return t.When == "" })
			seen := map[string]bool{}
			for _, t := range rows {
				if seen[t.When] || (always && len(rows) > 1) {
					bad = append(bad, state+" on "+on+": two answers")
				}
				seen[t.When] = true
			}
			if len(rows) == 0 || (!always && len(rows) < 2) {
				bad = append(bad, state+" on "+on+": no answer")
			}
		}
	}
	return bad
}

func TestEveryStateHasOneAnswerToEveryInput(t *testing.T) {
	for _, m := range Machines() {
		if bad := holes(m); len(bad) > 0 {
			t.Errorf("%s: %v", m.Name, bad)
		}
		short := m
		short.Rows = m.Rows[1:]
		if len(holes(short)) == 0 {
			t.Errorf("%s: a row that was taken out is not missed", m.Name)
		}
	}
}
