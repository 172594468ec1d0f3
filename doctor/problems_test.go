package doctor_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/settlemq/settle/doctor"
)

func TestWhatIsTheSameOfManyNamesIsSaidOnceAndTheWorstCounts(t *testing.T) {
	var p doctor.Problems
	if got := p.Diagnosis("%d are sound", 3); !reflect.DeepEqual(got, doctor.Sound("3 are sound")) || p.OnlyOf() != 0 {
		t.Errorf("of nothing it says %+v", got)
	}
	p.Add(doctor.Warn, "a", "one copy", "make three")
	p.Add(doctor.Bad, "b", "one copy", "make three")
	if p.OnlyOf() != 2 {
		t.Errorf("the one thing is of %d names", p.OnlyOf())
	}
	p.Add(doctor.Warn, "a", "no leader", "start a node")
	want := doctor.Diagnose(doctor.Bad, "one copy: a, b; no leader: a", "make three; start a node")
	if got := p.Diagnosis("sound"); got != want || p.OnlyOf() != 0 {
		t.Errorf("it says %+v, want %+v", got, want)
	}
	for n := range 20 {
		p.Add(doctor.Bad, fmt.Sprint("t", n), "in memory", fmt.Sprint("edit ", n))
	}
	got := p.Diagnosis("sound")
	if !strings.Contains(got.Found, "in memory: t0, t1") || !strings.Contains(got.Found, "and 10 more") || strings.Contains(got.Found, "t10") ||
		!strings.Contains(got.Fix, "and 12 more of the same kind") || strings.Contains(got.Fix, "edit 8") {
		t.Errorf("of many it says %+v", got)
	}
}

func TestWhatCanNotBeLookedAtIsNotTakenForSound(t *testing.T) {
	if got := doctor.Unseen("no right", "GRANT").Of("c", "w"); got != (doctor.Finding{Check: "c", Verdict: doctor.Warn, Found: "can't be looked at: no right", Why: "w", Fix: "GRANT"}) {
		t.Errorf("%+v", got)
	}
	if got := (doctor.Diagnosis{Found: "all"}).Of("c", "w"); got != (doctor.Finding{Check: "c", Verdict: doctor.OK, Found: "all", Why: "w"}) {
		t.Errorf("%+v", got)
	}
}
