package consumer

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settlemq/settle"
)

// stand is a consumer with everything around it, in a bubble of its own time.
type stand struct {
	t      *testing.T
	broker *fakeBroker
	in     *fakeInbox
	c      *Consumer[*fakeTx]
	log    *bytes.Buffer
	cancel context.CancelFunc
	ended  chan error
}

func newStand(t *testing.T, cfg Config) *stand {
	s := &stand{t: t, broker: newFakeBroker(4), in: newFakeInbox(time.Now), log: &bytes.Buffer{}, ended: make(chan error, 1)}
	cfg.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	cfg.Topics = []string{"topic"}
	s.c = New("g", s.broker, s.in, cfg)
	return s
}

func apply(_ context.Context, tx *fakeTx, e *settle.Event) error {
	tx.effect(e)
	return nil
}

func (s *stand) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() { s.ended <- s.c.Run(ctx) }()
	synctest.Wait()
}

func (s *stand) stop() {
	s.t.Helper()
	s.cancel()
	if err := <-s.ended; err != nil {
		s.t.Errorf("Run returns %v", err)
	}
}

func (s *stand) wantEffects(ids ...string) {
	s.t.Helper()
	got := s.in.applied()
	slices.Sort(got)
	if !slices.Equal(got, ids) {
		s.t.Errorf("effects are %v, want %v", got, ids)
	}
}
