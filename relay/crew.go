package relay

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/settlemq/settle"
)

// Crew runs a relay for each lane of an outbox, as many as there are at the
// time: a changed number of lanes needs no restart. Several crews on one outbox,
// in any number of processes, share its lanes: one leads each, the others stand
// by for it.
type Crew struct {
	open func() Store
	pub  settle.Publisher
	cfg  Config
	log  *slog.Logger

	mu     sync.Mutex
	manned map[int]*post
	gone   Stats // what relays that have ended had done
	crews  int   // how many there are
	// released is the lane that this crew left to another, 0 if none is on its
	// way; until quiet none is left again, because nobody took it.
	released int
	quiet    time.Time
}

// post is a lane and the relay that this process runs for it.
type post struct {
	Lane
	relay *Relay
	stop  context.CancelFunc
}

// LaneStats are the figures of one lane's relay in this process.
type LaneStats struct {
	Lane
	Stats
}

// NewCrew returns a crew, which is what a program runs for its outbox: a single
// relay (New) leads the first lane only, and ends with ErrLaneEnded when the
// number of lanes is changed. open gives each relay a Store of its own; one that is
// not Lanes has one lane. Of cfg, Lane and Hesitate are the crew's business, and
// limits of rates hold for all lanes together. It does no I/O.
func NewCrew(open func() Store, pub settle.Publisher, cfg Config) *Crew {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Owner == "" {
		cfg.Owner = settle.NewID()
	}
	cfg.LeaseTTL = cfg.withDefaults().LeaseTTL
	return &Crew{open: open, pub: pub, cfg: cfg, log: cfg.Logger.With("source", cfg.Name), manned: map[int]*post{}}
}

// lanesEvery is how often the lanes are looked at while none of them ends.
const lanesEvery = time.Second

// Run relays until ctx is done, as Relay.Run does for one lane, and returns an
// error for what that does, save that a lane ends: then those that follow it
// are run. It returns after all that it started has ended. Run is called once.
func (c *Crew) Run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	store := c.open()
	ended := make(chan error)
	n := 0
	var failed error
	look := time.NewTimer(0)
	defer look.Stop()
	for done := running.Done(); done != nil || n > 0; {
		select {
		case <-done:
			done = nil
		case <-look.C:
			if done == nil {
				continue
			}
			n += c.man(running, store, ended)
			look.Reset(lanesEvery)
		case err := <-ended:
			n--
			if err != nil && !errors.Is(err, ErrLaneEnded) {
				failed = errors.Join(failed, err)
				stop()
			}
			look.Reset(0)
		}
	}
	return failed
}

// man starts a relay for each lane that has none, and returns how many.
func (c *Crew) man(ctx context.Context, store Store, ended chan<- error) int {
	lanes, crews := []Lane{{Of: 1}}, 1
	if s, ok := store.(Lanes); ok {
		asking, cancel := context.WithTimeout(ctx, c.cfg.LeaseTTL)
		var err error
		lanes, crews, err = s.Lanes(asking, c.cfg.Owner, c.cfg.LeaseTTL)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				c.log.Warn("lanes can't be read", "error", err)
			}
			return 0
		}
	}
	c.mu.Lock()
	c.crews = crews
	started := 0
	for _, l := range lanes {
		if c.manned[l.Number] != nil {
			continue
		}
		p := &post{Lane: l}
		p.relay = New(c.open(), c.pub, c.config(p))
		running, stop := context.WithCancel(ctx)
		p.stop = stop
		c.manned[l.Number] = p
		started++
		go func() { ended <- c.keep(running, p) }()
	}
	c.mu.Unlock()
	c.share()
	return started
}

// share leaves a lane to others while this crew leads more than its share. One
// that nobody takes comes back, and is kept.
func (c *Crew) share() {
	posts := c.posts()
	if len(posts) == 0 {
		return
	}
	newest := posts[len(posts)-1].Lane
	var led []*post
	for _, p := range posts {
		if p.Generation == newest.Generation && p.relay.Stats().Leading {
			led = append(led, p)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released != 0 && slices.ContainsFunc(led, func(p *post) bool { return p.Number == c.released }) {
		c.released, c.quiet = 0, time.Now().Add(5*c.cfg.LeaseTTL)
	}
	if len(led) <= fair(newest.Of, c.crews) || time.Now().Before(c.quiet) {
		return
	}
	p := led[len(led)-1]
	c.log.Info("leaving a lane to another process", "lane", p.Number, "leads", len(led), "processes", c.crews)
	c.released = p.Number
	p.stop()
}

// fair is how many of so many lanes each crew leads at most.
func fair(lanes, crews int) int {
	crews = max(1, crews)
	return (lanes + crews - 1) / crews
}

// keep runs one relay to its end.
func (c *Crew) keep(ctx context.Context, p *post) error {
	defer p.stop()
	err := p.relay.Run(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.manned, p.Number)
	c.gone = c.gone.plus(p.relay.Stats())
	return err
}

func (c *Crew) config(p *post) Config {
	cfg := c.cfg
	cfg.Lane = p.Number
	if p.Of == 1 {
		return cfg
	}
	cfg.Logger = cfg.Logger.With("lane", p.Number, "of", p.Of)
	cfg.Hesitate = func() time.Duration { return c.hesitation(p) }
	cfg.RateLimit = maps.Clone(cfg.RateLimit)
	for topic := range cfg.RateLimit {
		cfg.RateLimit[topic] /= float64(p.Of)
	}
	return cfg
}

// hesitation leaves a free lane to crews that have fewer: what is beyond this
// one's share it takes when nobody else has.
func (c *Crew) hesitation(p *post) time.Duration {
	before := 0 // lanes that it leads, and those that it asks for before this one
	for _, l := range c.posts() {
		switch {
		case l.Number == p.Number || l.Generation != p.Generation:
		case l.relay.Stats().Leading, (l.Index+c.shift(l.Of))%l.Of < (p.Index+c.shift(p.Of))%p.Of:
			before++
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if before >= fair(p.Of, c.crews) {
		return c.cfg.LeaseTTL / 2
	}
	return 0
}

// shift is where among the lanes this crew begins to ask: another one's begins
// elsewhere.
func (c *Crew) shift(of int) int { return LaneOf(c.cfg.Owner, of) }

func (c *Crew) posts() []*post {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.manned), func(a, b *post) int { return a.Number - b.Number })
}

// Wake tells every relay that something was appended; see Relay.Wake.
func (c *Crew) Wake() {
	for _, p := range c.posts() {
		p.relay.Wake()
	}
}

// Lanes returns the figures of the lanes that this process runs a relay for, by
// their numbers. It may be called at any time.
func (c *Crew) Lanes() []LaneStats {
	posts := c.posts()
	all := make([]LaneStats, len(posts))
	for i, p := range posts {
		all[i] = LaneStats{p.Lane, p.relay.Stats()}
	}
	return all
}

// Stats returns what all relays of this process have done and hold together.
// Leading is true while one of them leads, and Cursor is that of the last.
func (c *Crew) Stats() Stats {
	c.mu.Lock()
	all := c.gone
	c.mu.Unlock()
	for _, l := range c.Lanes() {
		one := l.Stats
		all = all.plus(one)
		all.Leading, all.Epoch = all.Leading || one.Leading, max(all.Epoch, one.Epoch)
		all.Pending, all.ParkedKeys, all.Holes, all.Behind = all.Pending+one.Pending, all.ParkedKeys+one.ParkedKeys, all.Holes+one.Holes, all.Behind+one.Behind
		all.Cursor, all.Lag = max(all.Cursor, one.Cursor), max(all.Lag, one.Lag)
	}
	return all
}
