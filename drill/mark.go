package drill

import "time"

// MarkRepair is the name of a mark at which a person repaired.
const MarkRepair = "repair"

// Mark says when something was done to the system: a fault, by its name, or a
// repair. Times are seconds since the run began.
type Mark struct {
	Name  string  `json:"name"`
	At    float64 `json:"at"`
	Until float64 `json:"until"`
}

// mark notes what was done from a time until now.
func (r *run) mark(name string, from time.Time) {
	m := Mark{Name: name, At: from.Sub(r.began).Seconds(), Until: time.Since(r.began).Seconds()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marks = append(r.marks, m)
}
