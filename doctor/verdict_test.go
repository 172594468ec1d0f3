package doctor_test

import (
	"testing"

	"github.com/settlemq/settle/doctor"
)

func TestTheWorstVerdictCounts(t *testing.T) {
	list := func(v ...doctor.Verdict) (all []doctor.Finding) {
		for _, v := range v {
			all = append(all, doctor.Finding{Verdict: v})
		}
		return all
	}
	for _, c := range []struct {
		of   []doctor.Finding
		want doctor.Verdict
	}{
		{nil, doctor.OK},
		{list(doctor.OK, doctor.OK), doctor.OK},
		{list(doctor.OK, doctor.Warn, doctor.OK), doctor.Warn},
		{list(doctor.Bad, doctor.Warn), doctor.Bad},
		{list(doctor.Warn, doctor.Bad, doctor.OK), doctor.Bad},
	} {
		if got := doctor.Worst(c.of); got != c.want {
			t.Errorf("of %v the worst is %s, want %s", c.of, got, c.want)
		}
	}
}
