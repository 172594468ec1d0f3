package shop

import (
	"encoding/json"
	"net/http"
)

// Problem is the body of every answer to a request that is not a success, in the
// format of RFC 9457 (application/problem+json). What is no request, since its
// head is malformed or too large, net/http refuses in plain text.
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Errors names the fields at fault.
	Errors []FieldError `json:"errors,omitempty"`
}

func (p Problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	p.Title = http.StatusText(p.Status)
	writeJSON(w, p.Status, p)
}

// writeJSON answers. A client that has gone is nobody's error.
func writeJSON(w http.ResponseWriter, status int, body any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
