package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/relay"
)

const (
	// openWithin bounds an attempt to open a database: another process may be
	// migrating it.
	openWithin = 30 * time.Second
	// lookEvery is how often a relay is asked whether it leads, askEvery how
	// often database and broker are asked whether they answer, askWithin how
	// long they may take.
	lookEvery = 200 * time.Millisecond
	askEvery  = 2 * time.Second
	askWithin = 3 * time.Second
	// backlogRows bounds how much of an outbox is counted.
	backlogRows = 10_000
	// A source that is lost is tried again after retryFirst, then after twice
	// as long, up to retryMax.
	retryFirst = 500 * time.Millisecond
	retryMax   = 10 * time.Second
)

// source relays one database for as long as the server runs.
type source struct {
	name  string
	cfg   SourceConfig
	urls  map[string]string // of its brokers, by name; "" is the default one
	crash func(string)
	log   *slog.Logger
	// relayLog is log without the source's name: a relay says it itself.
	relayLog *slog.Logger
	board    *board
	sent     int64 // by relays of sessions that have ended
}

// What can be lost.
const (
	lostDatabase   = "database"
	lostBroker     = "broker"
	lostRelay      = "relay"
	lostDurability = "durability"
)

// lost says what a session has ended for.
type lost struct {
	what string
	err  error
}

func (l *lost) Error() string { return l.what + ": " + l.err.Error() }

// run goes from session to session until ctx is done.
func (s *source) run(ctx context.Context) {
	defer s.board.become(StateEnded, "", nil)
	for wait := retryFirst; ; {
		began := time.Now()
		err := s.session(ctx)
		var l *lost
		known := errors.As(err, &l)
		if ctx.Err() != nil {
			if known && l.what == lostRelay {
				s.log.Warn("did not end in order", "error", l.err)
			}
			return
		}
		if time.Since(began) > retryMax {
			wait = retryFirst
		}
		what := "source"
		if known {
			what, err = l.what, l.err
		}
		state := StateUnreachable
		if what == lostDurability {
			state = StateRefused
		}
		s.board.become(state, what, err)
		if !pause(ctx, wait/2+rand.N(wait/2)) {
			return
		}
		wait = min(2*wait, retryMax)
	}
}

// session opens the database and the broker, and relays until ctx is done or
// one of them is lost for good. It waits for all that it started.
func (s *source) session(ctx context.Context) error {
	db, err := s.open(ctx)
	if err != nil {
		return &lost{lostDatabase, err}
	}
	if err := s.judge(ctx); err != nil {
		return errors.Join(err, db.Close())
	}
	cfg := s.cfg.Relay.Relay()
	cfg.Name, cfg.Crash, cfg.Routes = s.name, s.crash, s.cfg.relayRoutes()
	cfg.Logger = slog.New(newCalmHandler(s.relayLog.Handler(), func() bool { return s.board.read().State == StateUnreachable }))
	if len(s.cfg.Brokers) > 0 {
		o := s.openOutlets(ctx)
		defer o.close()
		var pub settle.Publisher
		pub, cfg.Brokers = o.routed()
		return errors.Join(s.relay(ctx, db, pub, cfg, func(context.Context) *lost {
			s.board.warnBrokers(o.warnings())
			return o.ask()
		}), db.Close())
	}
	broker, err := s.connect(ctx)
	if err != nil {
		return errors.Join(&lost{lostBroker, err}, db.Close())
	}
	err = s.relay(ctx, db, broker, cfg, func(ctx context.Context) *lost { return askBroker(ctx, broker) })
	return errors.Join(err, broker.Close(), db.Close())
}

// relay runs until ctx is done. reached says which broker takes nothing, if any.
func (s *source) relay(ctx context.Context, db *dial.Database, pub settle.Publisher, cfg relay.Config, reached func(context.Context) *lost) error {
	r := relay.NewCrew(db.NewLog, pub, cfg)
	watching, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { s.watch(watching, r, db, reached) })
	err := r.Run(ctx)
	stop()
	group.Wait()
	s.sent += r.Stats().Published
	s.board.published(s.sent)
	s.board.lanes(nil)
	if err != nil {
		err = &lost{lostRelay, err}
	}
	return err
}

func (s *source) open(ctx context.Context) (*dial.Database, error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	db, err := dial.Store(ctx, s.cfg.DB, dial.StoreConfig{Service: s.name, Existing: !s.cfg.Migrate, Crash: s.crash})
	if err != nil {
		return nil, howToMigrate(err)
	}
	return db, nil
}

// judge refuses a database that may lose what it has committed, and a broker
// that may lose what it has acknowledged, or warns of it.
func (s *source) judge(ctx context.Context) error {
	unsafe, doubtful, err := s.cfg.judged(ctx)
	if err != nil {
		return &lost{lostDatabase, err}
	}
	if len(unsafe) > 0 && !s.cfg.lax() {
		s.board.warn(nil)
		return &lost{lostDurability, refusal(unsafe)}
	}
	if len(s.cfg.Brokers) > 0 { // each is judged when it is reached
		s.board.warn(slices.Concat(unsafe, doubtful))
		return nil
	}
	atBroker, doubtfulAtBroker, err := s.cfg.brokerJudged(ctx, "", s.urls[""])
	if err != nil {
		return &lost{lostBroker, err}
	}
	if len(atBroker) > 0 && !s.cfg.brokerLax() {
		s.board.warn(append(unsafe, doubtful...))
		return &lost{lostDurability, brokerRefusal(atBroker)}
	}
	s.board.warn(slices.Concat(unsafe, doubtful, atBroker, doubtfulAtBroker))
	return nil
}

func (s *source) connect(ctx context.Context) (settle.Broker, error) {
	return dial.Broker(ctx, s.urls[""], dial.BrokerConfig{Topics: s.cfg.Topics, Groups: s.cfg.Groups, Logger: slog.New(newCalmHandler(s.log.Handler(), func() bool { return true }))})
}

// watch keeps the board until ctx is done.
func (s *source) watch(ctx context.Context, r *relay.Crew, db *dial.Database, reached func(context.Context) *lost) {
	var next time.Time
	var failed *lost
	// A relay that may lead does so by then.
	elected := time.Now().Add(5 * lookEvery)
	for tick := time.NewTicker(lookEvery); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		if !time.Now().Before(next) {
			failed = s.ask(ctx, db, reached)
			next = time.Now().Add(askEvery)
		}
		stats := r.Stats()
		s.board.published(s.sent + stats.Published)
		s.board.lanes(r.Lanes())
		switch {
		case ctx.Err() != nil:
		case failed != nil:
			s.board.become(StateUnreachable, failed.what, failed.err)
		case stats.Leading:
			s.board.become(StateLeading, "", nil)
		case time.Now().After(elected):
			s.board.become(StateStandingBy, "", nil)
		}
	}
}

// pinger is a broker that can be asked whether it answers.
type pinger interface{ Ping(context.Context) error }

// ask returns what does not answer, or nil.
func (s *source) ask(ctx context.Context, db *dial.Database, reached func(context.Context) *lost) *lost {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	if g, ok := db.Log.(relay.Gauge); ok {
		backlog, err := g.Backlog(ctx, backlogRows)
		if err != nil {
			return &lost{lostDatabase, err}
		}
		s.board.count(backlog)
	}
	if l, ok := db.Log.(relay.Lookout); ok {
		other, err := l.OtherRelay(ctx)
		if err != nil {
			return &lost{lostDatabase, err}
		}
		s.board.contest(other, s.cfg.OtherRelay != OtherRelayUnready)
	}
	return reached(ctx)
}

// askBroker asks a settle.Broker or a bridge.Broker, if it can be asked.
func askBroker(ctx context.Context, broker any) *lost {
	if p, ok := broker.(pinger); ok {
		if err := p.Ping(ctx); err != nil {
			return &lost{lostBroker, fmt.Errorf("it does not answer: %w", err)}
		}
	}
	return nil
}

// pause waits for d and reports whether ctx allowed it.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
