package server

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"
)

// Health is what GET /readyz answers.
type Health struct {
	// Ready is true when every source leads or stands by, and no other relay is
	// seen at work on one that says other_relay: unready; and every bridge does.
	Ready   bool                      `json:"ready"`
	Sources map[string]SourceStanding `json:"sources"`
	// Embedded is how the embedded broker stands; nil without one.
	Embedded *Standing `json:"embedded,omitempty"`
}

// Health returns how everything stands. It may be called at any time.
func (s *Server) Health() Health {
	h := Health{Sources: s.Standings()}
	h.Ready = len(h.Sources) > 0
	for _, standing := range h.Sources {
		h.Ready = h.Ready && standing.State.reachable() && !standing.contested
		for _, b := range standing.Bridges {
			h.Ready = h.Ready && b.State.reachable()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broker != nil {
		now := s.broker.board.read().Standing
		now.Cause = s.mask.Replace(now.Cause)
		h.Embedded = &now
	}
	return h
}

// serveHealth answers until ctx is done.
func (s *Server) serveHealth(ctx context.Context, at net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		h := s.Health()
		w.Header().Set("Content-Type", "application/json")
		if !h.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(h) // the client has gone
	})
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := server.Shutdown(draining); err != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(at)
	if !stop() {
		<-closed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
