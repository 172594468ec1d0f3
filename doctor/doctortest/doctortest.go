// Package doctortest holds what the tests of all doctors ask.
package doctortest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/settlemq/settle/doctor"
)

// Diagnose returns the findings of a checker by their names, and fails where one
// is not complete: what is sound has nothing to mend, and all else has.
func Diagnose(t testing.TB, of doctor.Checker) map[string]doctor.Finding {
	t.Helper()
	list, err := of.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]doctor.Finding{}
	for _, f := range list {
		if f.Check == "" || f.Found == "" || f.Why == "" || (f.Verdict == doctor.OK) != (f.Fix == "") {
			t.Errorf("a finding is not complete: %+v", f)
		}
		by[f.Check] = f
	}
	if len(by) != len(list) {
		t.Errorf("%d findings have %d names", len(list), len(by))
	}
	return by
}

// Says fails unless a check has found this.
func Says(t testing.TB, by map[string]doctor.Finding, check string, verdict doctor.Verdict, found, fix string) {
	t.Helper()
	f := by[check]
	if f.Verdict != verdict || !strings.Contains(f.Found, found) || !strings.Contains(f.Fix, fix) {
		t.Errorf("%s: %+v; want %s, %q and %q", check, f, verdict, found, fix)
	}
}

// Listed fails unless the tables of a page list the checks of these findings, as
// those of one kind of server and in their order.
func Listed(t testing.TB, page, of string, findings []doctor.Finding) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var listed, has []string
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "| `") && len(cells) == 5 && strings.TrimSpace(cells[2]) == of {
			listed = append(listed, strings.Trim(cells[1], " `"))
		}
	}
	for _, f := range findings {
		has = append(has, f.Check)
	}
	if len(has) == 0 || !slices.Equal(listed, has) {
		t.Errorf("of %s are listed\n%v, and there are\n%v", of, listed, has)
	}
}
