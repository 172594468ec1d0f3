package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
)

// lookEvery is how soon a new dead letter is found.
const lookEvery = 500 * time.Millisecond

// letterSource is where the dead letters of a group lie.
type letterSource struct {
	b *Broker
	g bridge.Group
}

// Source implements bridge.Broker. A group is a durable consumer, Group.Dead are the
// streams that it reads: what it gives up stays where it is, and the server only says
// so. Letters makes a stream that keeps what the server says.
func (b *Broker) Source(g bridge.Group) (bridge.Source, error) {
	if why := badName("consumer", g.Name); why != "" {
		return nil, fmt.Errorf("read dead letters of group %q: %s", g.Name, why)
	}
	if len(g.Dead) == 0 {
		return nil, fmt.Errorf("read dead letters of group %q: no stream is named", g.Name)
	}
	for _, name := range g.Dead {
		if why := badName("stream", name); why != "" {
			return nil, fmt.Errorf("read dead letters of group %q: %s", g.Name, why)
		}
	}
	if g.Retry != "" {
		if why := badSubject(g.Retry); why != "" {
			return nil, fmt.Errorf("read dead letters of group %q: the subject %q: %s", g.Name, g.Retry, why)
		}
	}
	return &letterSource{b: b, g: g}, nil
}

// badName says why the server knows no stream or consumer of a name.
func badName(what, name string) string {
	if name == "" || len(name) > 255 || strings.ContainsAny(name, " \t\r\n\x00.*>/\\") {
		return fmt.Sprintf("a %s on NATS has no name like %q: 1 to 255 bytes without space, dot, *, > and slash", what, name)
	}
	return ""
}

// Letters implements bridge.Source.
func (s *letterSource) Letters(ctx context.Context, sink bridge.Sink) error {
	if err := s.b.begin(); err != nil {
		return err
	}
	defer s.b.calls.Done()
	ctx, cancel := within(ctx, s.b.life)
	defer cancel()
	err := s.follow(ctx, sink)
	switch {
	case errors.Is(context.Cause(ctx), settle.ErrClosed):
		return settle.ErrClosed
	case ctx.Err() != nil:
		return nil
	}
	return fmt.Errorf("read dead letters of group %q: %w", s.g.Name, err)
}

// follow looks for letters until ctx is done or something has failed that waiting
// does not mend.
func (s *letterSource) follow(ctx context.Context, sink bridge.Sink) error {
	told := ""
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := s.session(ctx, sink, func() { told, wait = "", firstWait })
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case isForGood(err):
			return err
		}
		if why := s.b.refusedAPI(); why != nil {
			return why
		}
		if now := err.Error(); now != told && !errors.Is(err, errDisconnected) {
			told = now
			s.b.cfg.Log.Warn("reading dead letters from NATS fails and is tried again", "consumer_group", s.g.Name, "error", err)
		}
		if !pause(ctx, wait) {
			return context.Cause(ctx)
		}
	}
}

// isForGood reports whether waiting for the server does not mend an error. One that
// nobody answers may be starting, or choosing a leader.
func isForGood(err error) bool {
	return !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, jetstream.ErrJetStreamNotEnabled) && classify(err).Scope == settle.ScopeTopic
}

// refusedAPI returns the error of a question that the account has no right to ask: the
// server answers none, and it looks like a time-out.
func (b *Broker) refusedAPI() (why error) {
	b.denied.Range(func(subject, err any) bool {
		if name, _ := subject.(string); strings.HasPrefix(name, "$JS.API.") {
			b.denied.Delete(subject)
			why = unfit(fmt.Sprintf("the account may not ask %s: %v", name, err))
		}
		return why == nil
	})
	return why
}

// session looks for letters in all places, by one connection, until an error. It
// calls well when all have answered.
func (s *letterSource) session(ctx context.Context, sink bridge.Sink, well func()) error {
	connected, err := s.b.link.await(ctx)
	if err != nil {
		return err
	}
	asked, cancel := within(ctx, connected)
	defer cancel()
	places := make([]*letterPlace, len(s.g.Dead))
	for i, stream := range s.g.Dead {
		places[i] = &letterPlace{s: s, stream: stream}
		if err := places[i].open(asked); err != nil {
			return because(asked, err)
		}
	}
	for {
		busy := false
		for _, p := range places {
			found, err := p.look(ctx, asked, sink)
			if err != nil {
				return because(asked, err)
			}
			busy = busy || found
		}
		well()
		if !busy && !pause(asked, lookEvery) {
			return context.Cause(asked)
		}
	}
}
