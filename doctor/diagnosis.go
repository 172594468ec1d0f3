package doctor

import "fmt"

// Diagnosis is what a check has seen. The zero verdict is OK.
type Diagnosis struct {
	Verdict Verdict
	// Found and Fix are those of Finding.
	Found, Fix string
}

// Diagnose returns a diagnosis of something that is not sound.
func Diagnose(verdict Verdict, found, fix string) Diagnosis {
	return Diagnosis{Verdict: verdict, Found: found, Fix: fix}
}

// Sound returns a diagnosis without anything to mend.
func Sound(format string, args ...any) Diagnosis {
	return Diagnosis{Verdict: OK, Found: fmt.Sprintf(format, args...)}
}

// Unseen returns that of a check which could not be made, why, and what lets it
// be made: it is never taken for sound.
func Unseen(why, fix string) Diagnosis {
	return Diagnosis{Verdict: Warn, Found: "can't be looked at: " + why, Fix: fix}
}

// Of returns the finding of a check; why is what it matters for.
func (d Diagnosis) Of(check, why string) Finding {
	if d.Verdict == "" {
		d.Verdict = OK
	}
	return Finding{Check: check, Verdict: d.Verdict, Found: d.Found, Why: why, Fix: d.Fix}
}
