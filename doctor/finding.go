package doctor

// Finding is what one check has found.
type Finding struct {
	// Check names it, in snake_case.
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	// Found is what was seen.
	Found string `json:"found"`
	// Why is what it matters for.
	Why string `json:"why"`
	// Fix is the SQL, setting or command that mends it; empty when there is
	// nothing to mend.
	Fix string `json:"fix,omitempty"`
}
