package doctor

// Verdict says how much a finding matters.
type Verdict string

// Verdicts, from the best to the worst.
const (
	OK Verdict = "ok"
	// Warn: nothing is lost by it now, but something is slower, less ordered or
	// less certain than it seems.
	Warn Verdict = "warn"
	// Bad: what Settle promises does not hold.
	Bad Verdict = "bad"
)

// Worst returns the worst verdict of a list; OK of none.
func Worst(findings []Finding) Verdict {
	worst := OK
	for _, f := range findings {
		switch {
		case f.Verdict == Bad:
			return Bad
		case f.Verdict == Warn:
			worst = Warn
		}
	}
	return worst
}
