package outside

import (
	"encoding/json"
	"net/http"
)

// problem is the body of every answer that is not a success (RFC 9457).
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Reason says why the business says no.
	Reason string `json:"reason,omitempty"`
}

func refuse(status int, detail string) problem {
	return problem{Title: http.StatusText(status), Status: status, Detail: detail}
}

// write answers. A client that has gone is nobody's error.
func (p problem) write(w http.ResponseWriter) {
	b, _ := json.Marshal(p) // strings and a number
	writeAnswer(w, answer{status: p.Status, body: b})
}

// answer is what goes out, and what a ledger keeps.
type answer struct {
	status int
	body   []byte
}

func writeAnswer(w http.ResponseWriter, a answer) {
	kind := "application/json"
	if a.status >= http.StatusBadRequest {
		kind = "application/problem+json"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(a.status)
	_, _ = w.Write(append(a.body, '\n'))
}
