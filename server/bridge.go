package server

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/dial"
)

// bridging bridges one group into a source's database for as long as the server
// runs.
type bridging struct {
	source, group string
	cfg           SourceConfig
	crash         func(string)
	log           *slog.Logger
	board         *board

	mu    sync.Mutex
	total BridgeStanding // of sessions that have ended
	now   bridge.Stats
}

// BridgeStanding is how the bridge of a group stands in this process.
type BridgeStanding struct {
	Standing
	// Kept counts the dead letters that this process has brought in since it
	// started, Returned those that it has sent back, and GivenUp those that it
	// could not: they are open again.
	Kept     int64 `json:"kept"`
	Returned int64 `json:"returned"`
	GivenUp  int64 `json:"given_up"`
}

// lostSource is what a bridge can't read from.
const lostSource = "dead letters"

func (b *bridging) standing() BridgeStanding {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.total
	s.Standing = b.board.read().Standing
	s.Kept += b.now.Kept
	s.Returned += b.now.Returned
	s.GivenUp += b.now.GivenUp
	return s
}

// run goes from session to session until ctx is done.
func (b *bridging) run(ctx context.Context) {
	defer b.board.become(StateEnded, "", nil)
	for wait := retryFirst; ; wait = min(2*wait, retryMax) {
		err := b.session(ctx)
		var l *lost
		switch {
		case ctx.Err() != nil:
			if err != nil {
				b.log.Warn("did not end in order", "error", err)
			}
			return
		case errors.As(err, &l) && l.what == lostDurability:
			b.board.become(StateRefused, l.what, l.err)
		case errors.As(err, &l):
			b.board.become(StateUnreachable, l.what, l.err)
		default:
			b.board.become(StateUnreachable, lostSource, err)
		}
		if !pause(ctx, wait/2+rand.N(wait/2)) {
			return
		}
	}
}

// session opens the database and the broker, makes the ladder, and bridges until
// ctx is done. It waits for all that it started.
func (b *bridging) session(ctx context.Context) error {
	db, err := b.open(ctx)
	if err != nil {
		return &lost{lostDatabase, err}
	}
	defer func() { _ = db.Close() }()
	unsafe, _, err := b.cfg.judged(ctx)
	if err != nil {
		return &lost{lostDatabase, err}
	}
	if len(unsafe) > 0 && !b.cfg.lax() {
		return &lost{lostDurability, refusal(unsafe)}
	}
	calm := slog.New(newCalmHandler(b.log.Handler(), func() bool { return false }))
	broker, err := dial.Bridge(ctx, b.cfg.bridgeBroker(b.group), dial.BrokerConfig{Logger: calm})
	if err != nil {
		return &lost{lostBroker, err}
	}
	defer func() { _ = broker.Close() }()
	of, err := b.sourceOf(ctx, broker)
	if err != nil {
		return &lost{lostBroker, err}
	}
	own := b.cfg.Bridges[b.group]
	running := bridge.New(b.group, db.Bridge, of, bridge.Config{LeaseTTL: own.LeaseTTL, LookEvery: own.LookEvery, Crash: b.crash, Logger: calm})
	watching, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { b.watch(watching, running, broker) })
	err = running.Run(ctx)
	stop()
	group.Wait()
	b.add(running.Stats())
	return err
}

func (b *bridging) open(ctx context.Context) (*dial.Database, error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	db, err := dial.Store(ctx, b.cfg.DB, dial.StoreConfig{Service: b.source, Existing: !b.cfg.Migrate, Crash: b.crash})
	if err != nil {
		return nil, howToMigrate(err)
	}
	return db, nil
}

// sourceOf makes the ladder, where there is to be one, and returns where the
// group's dead letters lie.
func (b *bridging) sourceOf(ctx context.Context, broker bridge.Broker) (bridge.Source, error) {
	of := b.cfg.Bridges[b.group]
	var made bridge.Group
	if l := of.Ladder; l.Topic != "" {
		ctx, cancel := context.WithTimeout(ctx, openWithin)
		defer cancel()
		var err error
		if made, err = broker.Declare(ctx, bridge.Ladder{Topic: l.Topic, Group: b.group, Queue: l.Queue, Steps: l.Steps}); err != nil {
			return nil, err
		}
	}
	return broker.Source(of.group(b.group, made))
}

// watch keeps the board until ctx is done.
func (b *bridging) watch(ctx context.Context, of *bridge.Bridge, broker bridge.Broker) {
	var next time.Time
	var silent *lost
	elected := time.Now().Add(5 * lookEvery)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !time.Now().Before(next) {
			asking, cancel := context.WithTimeout(ctx, askWithin)
			silent = askBroker(asking, broker)
			cancel()
			next = time.Now().Add(askEvery)
		}
		stats := of.Stats()
		b.mu.Lock()
		b.now = stats
		b.mu.Unlock()
		switch {
		case ctx.Err() != nil:
		case silent != nil:
			b.board.become(StateUnreachable, silent.what, silent.err)
		case stats.Trouble != "":
			b.board.become(StateUnreachable, stats.Trouble, errors.New(stats.Cause))
		case stats.Leading:
			b.board.become(StateLeading, "", nil)
		case time.Now().After(elected):
			b.board.become(StateStandingBy, "", nil)
		}
	}
}

// add counts what a session that has ended had done.
func (b *bridging) add(of bridge.Stats) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = bridge.Stats{}
	b.total.Kept += of.Kept
	b.total.Returned += of.Returned
	b.total.GivenUp += of.GivenUp
}
