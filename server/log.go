package server

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// maskingHandler takes secrets out of all that is logged.
type maskingHandler struct {
	slog.Handler
	mask mask
}

func (h maskingHandler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, h.mask.Replace(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.clean(a))
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

func (h maskingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.clean(a)
	}
	return maskingHandler{h.Handler.WithAttrs(clean), h.mask}
}

func (h maskingHandler) WithGroup(name string) slog.Handler {
	return maskingHandler{h.Handler.WithGroup(name), h.mask}
}

func (h maskingHandler) clean(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(h.mask.Replace(v.String()))
	case slog.KindAny:
		v = slog.StringValue(h.mask.Replace(fmt.Sprint(v.Any())))
	case slog.KindGroup:
		inner := make([]slog.Attr, len(v.Group()))
		for i, a := range v.Group() {
			inner[i] = h.clean(a)
		}
		v = slog.GroupValue(inner...)
	}
	return slog.Attr{Key: a.Key, Value: v}
}

// repeatAfter is how soon a complaint may be repeated.
const repeatAfter = time.Minute

// calmHandler lets a complaint (a warning with an error) pass once a minute,
// and not at all while the source is known to be unreachable: that was said
// once, and will be over once.
type calmHandler struct {
	slog.Handler
	calm *calm
}

type calm struct {
	unreachable func() bool

	mu   sync.Mutex
	last map[string]time.Time
}

func newCalmHandler(h slog.Handler, unreachable func() bool) slog.Handler {
	return calmHandler{h, &calm{unreachable: unreachable, last: map[string]time.Time{}}}
}

func (h calmHandler) Handle(ctx context.Context, r slog.Record) error {
	complaint := false
	if r.Level == slog.LevelWarn {
		r.Attrs(func(a slog.Attr) bool {
			complaint = a.Key == "error"
			return !complaint
		})
	}
	if complaint && !h.calm.passes(r) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (c *calm) passes(r slog.Record) bool {
	if c.unreachable() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, ok := c.last[r.Message]; ok && r.Time.Sub(last) < repeatAfter {
		return false
	}
	c.last[r.Message] = r.Time // relays have few messages
	return true
}

func (h calmHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return calmHandler{h.Handler.WithAttrs(attrs), h.calm}
}

func (h calmHandler) WithGroup(name string) slog.Handler {
	return calmHandler{h.Handler.WithGroup(name), h.calm}
}
