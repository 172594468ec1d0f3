package nats

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle/bridge"
)

// letterPlace is one stream whose consumer gives messages up.
type letterPlace struct {
	s      *letterSource
	stream string
	// next is the advisory that is to be read next, 0 while that is not known.
	next int64
}

func (p *letterPlace) capture() string { return captureOf(p.stream, p.s.g.Name) }

// open makes the capture before it looks whether anybody reads there: a consumer that
// is made a moment later loses nothing. What was captured is read though its stream
// or its consumer is gone.
func (p *letterPlace) open(ctx context.Context) error {
	b := p.s.b
	_, err := b.js.Stream(ctx, p.stream)
	missing := errors.Is(err, jetstream.ErrStreamNotFound)
	if err != nil && !missing {
		return fmt.Errorf("stream %q: %w", p.stream, err)
	}
	if missing {
		known, err := b.js.Stream(ctx, p.capture())
		if errors.Is(err, jetstream.ErrStreamNotFound) || err == nil && known.CachedInfo().State.Msgs == 0 {
			return unfit(fmt.Sprintf("there is no stream %q", p.stream))
		}
		if err != nil {
			return fmt.Errorf("stream %q: %w", p.capture(), err)
		}
		return nil
	}
	captured, err := b.capture(ctx, p.stream, p.s.g.Name)
	if err != nil || captured.State.Msgs > 0 {
		return err
	}
	_, err = b.js.Consumer(ctx, p.stream, p.s.g.Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return unfit(fmt.Sprintf("stream %q has no consumer %q; what it gives up is captured as soon as there is one", p.stream, p.s.g.Name))
	}
	if err != nil {
		return fmt.Errorf("consumer %q of stream %q: %w", p.s.g.Name, p.stream, err)
	}
	return nil
}

// look passes on what was captured, at most one batch, and reports whether there was
// any. asked ends with the connection, ctx does not.
func (p *letterPlace) look(ctx, asked context.Context, sink bridge.Sink) (found bool, err error) {
	s, err := p.s.b.js.Stream(asked, p.capture())
	if err != nil {
		return false, fmt.Errorf("stream %q: %w", p.capture(), err)
	}
	state := s.CachedInfo().State
	if state.Msgs == 0 {
		return false, nil
	}
	if first := int64(state.FirstSeq); p.next > 0 && first > p.next {
		p.s.b.cfg.Log.Warn("advisories were deleted before they were read; their letters are not known", "consumer_group", p.s.g.Name, "stream", p.capture(), "read_up_to", p.next-1, "begins_at", first)
	}
	letters, last, err := p.gather(asked, int64(state.FirstSeq), int64(state.LastSeq))
	if err != nil {
		return false, err
	}
	if len(letters) > 0 {
		if err := p.keep(ctx, letters, sink); err != nil {
			return false, err
		}
	}
	// Crash here: the letters are kept, and come again under the same identities.
	if err := p.done(ctx, s, last); err != nil {
		return false, err
	}
	p.next = last + 1
	return true, nil
}

// gather reads advisories from first on, and the messages that they are of, as many
// as a sink is given at a time. last is the last that it has read.
func (p *letterPlace) gather(ctx context.Context, first, end int64) (letters []bridge.Letter, last int64, err error) {
	var deaths []death
	size := 0
	for last = first - 1; last < end && len(deaths) < bridge.MaxLetters; last++ {
		m, err := p.s.b.message(ctx, p.capture(), last+1)
		if err != nil {
			return nil, 0, err
		}
		if m == nil {
			continue
		}
		a, err := parseAdvisory(m.Data, p.stream, p.s.g.Name)
		if err != nil {
			p.s.b.cfg.Log.Warn("a message where advisories are captured is passed over", "consumer_group", p.s.g.Name, "stream", p.capture(), "sequence", last+1, "error", err)
			continue
		}
		d := death{advisory: a}
		if d.message, err = p.s.b.message(ctx, p.stream, a.Sequence); err != nil {
			return nil, 0, err
		}
		if d.message != nil {
			if len(deaths) > 0 && size+len(d.message.Data) > bridge.MaxBytes {
				break
			}
			size += len(d.message.Data)
		}
		deaths = append(deaths, d)
	}
	// The stream is asked after its messages: one that was there before the advisory
	// is the one that they were read from.
	life, err := p.life(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, d := range deaths {
		letters = append(letters, p.s.letter(life, d))
	}
	return letters, last, nil
}

// life returns what a stream is now, nil when it is gone.
func (p *letterPlace) life(ctx context.Context) (*jetstream.StreamInfo, error) {
	s, err := p.s.b.js.Stream(ctx, p.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("stream %q: %w", p.stream, err)
	}
	return s.CachedInfo(), nil
}

// keep passes letters on until the sink has them. Nothing else is passed on
// meanwhile.
func (p *letterPlace) keep(ctx context.Context, letters []bridge.Letter, sink bridge.Sink) error {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		if err := sink(ctx, letters); err == nil {
			return nil
		}
		if !pause(ctx, wait) {
			return ctx.Err()
		}
	}
}

// done removes what was kept from the capture, also when ctx has ended since.
func (p *letterPlace) done(ctx context.Context, capture jetstream.Stream, last int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.s.b.cfg.Timeout)
	defer cancel()
	if err := capture.Purge(ctx, jetstream.WithPurgeSequence(uint64(last)+1)); err != nil {
		return fmt.Errorf("remove what was kept from stream %q: %w", p.capture(), err)
	}
	return nil
}
