package shop

import (
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"
)

// maxBody bounds the body of a request.
const maxBody = 64 << 10

// entryTimeouts bound how long a client may keep the entry busy. The zero
// value works.
type entryTimeouts struct {
	// Header is how long the head of a request may take to arrive, Body how long
	// all of it may. Default to 5 s and 10 s.
	Header, Body time.Duration
	// Answer is how long a request may take, its body included; then it is
	// answered that nothing is known. Defaults to 15 s.
	Answer time.Duration
	// Idle is how long a connection may wait for its next request. Defaults to
	// 60 s.
	Idle time.Duration
}

func (t entryTimeouts) withDefaults() entryTimeouts {
	orTime(&t.Header, 5*time.Second)
	orTime(&t.Body, 10*time.Second)
	orTime(&t.Answer, 15*time.Second)
	orTime(&t.Idle, time.Minute)
	return t
}

// routes knows every path and method. Anything else is answered with a Problem
// too.
func (h *orderHandler) routes() http.Handler {
	mux := http.NewServeMux()
	allowed := map[string][]string{}
	for _, r := range []struct {
		method, path string
		handle       http.HandlerFunc
	}{
		{http.MethodPost, "/orders", h.place},
		{http.MethodGet, "/orders/{id}", h.show},
		{http.MethodPost, "/orders/{id}/cancel", h.cancel},
		{http.MethodPost, "/orders/{id}/pay", h.pay},
		{http.MethodGet, "/healthz", h.health},
	} {
		mux.HandleFunc(r.method+" "+r.path, r.handle)
		allowed[r.path] = append(allowed[r.path], r.method)
		if r.method == http.MethodGet {
			allowed[r.path] = append(allowed[r.path], http.MethodHead)
		}
	}
	for at, methods := range allowed {
		allow := strings.Join(methods, ", ")
		mux.HandleFunc(at, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", allow)
			Problem{Status: http.StatusMethodNotAllowed, Detail: "this path takes " + allow}.write(w)
		})
	}
	mux.HandleFunc("/", nothingHere)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The mux would redirect to a cleaner path, in HTML.
		if p := r.URL.EscapedPath(); path.Clean("/"+p) != p && path.Clean("/"+p)+"/" != p {
			nothingHere(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func nothingHere(w http.ResponseWriter, _ *http.Request) {
	Problem{Status: http.StatusNotFound, Detail: "there is nothing at this path"}.write(w)
}

// server bounds what a client may take of our time and memory.
func (h *orderHandler) server() *http.Server {
	return &http.Server{
		Handler:           h.routes(),
		ReadHeaderTimeout: h.timeouts.Header,
		ReadTimeout:       h.timeouts.Body,
		WriteTimeout:      h.timeouts.Answer + 5*time.Second,
		IdleTimeout:       h.timeouts.Idle,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
}
