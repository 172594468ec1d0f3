package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
)

// Server relays the outboxes of its sources. It is run once.
type Server struct {
	cfg Config

	mu      sync.Mutex // guards what follows, which Run sets
	sources []*source
	bridges []*bridging
	broker  *embedded // nil: no source needs it
	mask    mask
}

// New returns a server. It does no I/O.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Server{cfg: cfg}
}

// Run relays until ctx is done. Then every source sends what it has in hand,
// records what was acknowledged and gives its lease back; the embedded broker
// ends after the last of them, and Run returns nil.
//
// A source whose database or broker does not answer is tried again for ever
// and stops no other. Run returns an error only before anything has begun: for
// a config that can't be, an address to listen at that is in use, a broker's
// directory that can't be written.
func (s *Server) Run(ctx context.Context) error {
	if err := s.cfg.Check(); err != nil {
		return fmt.Errorf("check config: %w", err)
	}
	listener, err := s.prepare(ctx)
	if err != nil {
		return s.cfg.HideError(err)
	}
	// The broker outlives the sources, so that they end with all acknowledged.
	serving, stopBroker := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBroker()
	var last, group sync.WaitGroup
	if s.broker != nil {
		last.Go(func() { s.broker.run(serving) })
	}
	for _, src := range s.sources {
		group.Go(func() { src.run(ctx) })
	}
	for _, b := range s.bridges {
		group.Go(func() { b.run(ctx) })
	}
	failed := make(chan error, 1)
	if listener != nil {
		// Answered as long as anything runs: a drain can be watched.
		last.Go(func() { failed <- s.serveHealth(serving, listener) })
	}
	group.Wait()
	<-ctx.Done()
	stopBroker()
	last.Wait()
	if listener == nil {
		return nil
	}
	return <-failed
}

// prepare does what can fail before anything begins.
func (s *Server) prepare(ctx context.Context) (net.Listener, error) {
	cfg := s.cfg
	if cfg.embeds() {
		var err error
		if cfg.Embedded, err = cfg.Embedded.withToken(); err != nil {
			return nil, err
		}
	}
	var listener net.Listener
	if s.cfg.Listen != "" {
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Listen); err != nil {
			return nil, fmt.Errorf("listen for health checks: %w", err)
		}
		if s.cfg.Ready != nil {
			s.cfg.Ready(listener.Addr().String())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mask = newMask(cfg)
	log := slog.New(maskingHandler{cfg.Logger.Handler(), s.mask})
	for _, name := range cfg.names() {
		src := cfg.source(name)
		src.relayLog, src.log = log, log.With("source", name)
		src.board = newBoard(src.log)
		s.sources = append(s.sources, src)
		for _, of := range cfg.Sources[name].bridges() {
			own := log.With("source", name, "bridge", of)
			s.bridges = append(s.bridges, &bridging{source: name, group: of, cfg: cfg.Sources[name], crash: cfg.Crash, log: own, board: newBoard(own)})
		}
	}
	if cfg.embeds() {
		own := log.With("broker", "embedded")
		s.broker = &embedded{cfg: cfg.Embedded, log: own, board: newBoard(own)}
	}
	return listener, nil
}

func (c Config) source(name string) *source {
	src := &source{name: name, cfg: c.Sources[name], urls: c.Sources[name].brokers(), crash: c.Crash}
	for broker, url := range src.urls {
		if isEmbedded(url) {
			src.urls[broker] = c.Embedded.url()
		}
	}
	return src
}

// Standings returns how each source stands, by name. It may be called at any
// time.
func (s *Server) Standings() map[string]SourceStanding {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]SourceStanding{}
	for _, src := range s.sources {
		now := src.board.read()
		now.Cause = s.mask.Replace(now.Cause)
		now.Warnings = slices.Clone(now.Warnings)
		for i, text := range now.Warnings {
			now.Warnings[i] = s.mask.Replace(text)
		}
		now.Bridges = s.bridgesOf(src.name)
		all[src.name] = now
	}
	return all
}

// bridgesOf returns how the bridges of a source stand, by group; s.mu is held.
func (s *Server) bridgesOf(source string) map[string]BridgeStanding {
	var all map[string]BridgeStanding
	for _, b := range s.bridges {
		if b.source != source {
			continue
		}
		if all == nil {
			all = map[string]BridgeStanding{}
		}
		now := b.standing()
		now.Cause = s.mask.Replace(now.Cause)
		all[b.group] = now
	}
	return all
}
