package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
)

// outlet is one of several brokers of a source. It is connected to for as long
// as that takes, while the others get their events.
type outlet struct {
	name string // "" is the default one
	url  string
	cfg  SourceConfig
	log  *slog.Logger

	mu       sync.Mutex // guards what follows
	broker   settle.Broker
	err      error    // why there is none, or why it does not answer
	warnings []string // of what may be lost there
}

func newOutlet(s *source, name, url string) *outlet {
	log := s.log
	if name != "" {
		log = log.With("broker", name)
	}
	return &outlet{name: name, url: url, cfg: s.cfg, log: log, err: errors.New("it was not reached yet")}
}

// run connects, asks whether the broker answers until ctx is done, and closes it.
func (o *outlet) run(ctx context.Context) {
	for wait := retryFirst; !o.connect(ctx); wait = min(2*wait, retryMax) {
		if !pause(ctx, wait) {
			return
		}
	}
	for pause(ctx, askEvery) {
		o.ping(ctx)
	}
	if err := o.broker.Close(); err != nil {
		o.log.Warn("did not end in order", "error", err)
	}
}

// connect reports whether the broker is there now.
func (o *outlet) connect(ctx context.Context) bool {
	broker, warnings, err := o.dial(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broker, o.err = broker, err; err == nil {
		o.warnings = warnings
		o.log.Info("broker reached")
	}
	return err == nil
}

func (o *outlet) dial(ctx context.Context) (settle.Broker, []string, error) {
	unsafe, doubtful, err := o.cfg.brokerJudged(ctx, o.name, o.url)
	if err != nil {
		return nil, nil, err
	}
	if len(unsafe) > 0 && !o.cfg.brokerLax() {
		return nil, nil, brokerRefusal(unsafe)
	}
	calm := slog.New(newCalmHandler(o.log.Handler(), func() bool { return true }))
	broker, err := dial.Broker(ctx, o.url, dial.BrokerConfig{Topics: o.cfg.topicsAt(o.name), Groups: o.cfg.Groups, Logger: calm})
	return broker, append(unsafe, doubtful...), err
}

func (o *outlet) ping(ctx context.Context) {
	p, ok := o.broker.(pinger)
	if !ok {
		return
	}
	asking, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	err := p.Ping(asking)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		err = fmt.Errorf("it does not answer: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && o.err == nil {
		o.log.Warn("broker unreachable; trying again", "cause", err)
	}
	o.err = err
}

// Publish implements settle.Publisher.
func (o *outlet) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	o.mu.Lock()
	broker, err := o.broker, o.err
	o.mu.Unlock()
	if broker != nil {
		return broker.Publish(ctx, batch)
	}
	receipts := make([]settle.Receipt, len(batch))
	for i := range receipts {
		receipts[i].Err = &settle.PublishError{Scope: settle.ScopeBroker, Err: fmt.Errorf("broker %s: %w", o.called(), err)}
	}
	return receipts
}

func (o *outlet) called() string {
	if o.name == "" {
		return DefaultBroker
	}
	return o.name
}

// lost says why the broker takes nothing, or nil.
func (o *outlet) lost() *lost {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return nil
	}
	return &lost{lostBroker, fmt.Errorf("broker %s: %w", o.called(), o.err)}
}

// outlets are the brokers of a source that has several.
type outlets struct {
	all   []*outlet
	stop  context.CancelFunc
	group sync.WaitGroup
}

// openOutlets begins to connect to every broker, and waits for none. They last
// until close: what is in flight when ctx is done is still answered.
func (s *source) openOutlets(ctx context.Context) *outlets {
	o := &outlets{}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	o.stop = stop
	for _, name := range s.cfg.BrokerNames() {
		one := newOutlet(s, name, s.urls[name])
		o.all = append(o.all, one)
		o.group.Go(func() { one.run(running) })
	}
	return o
}

// close waits for the end of all.
func (o *outlets) close() {
	o.stop()
	o.group.Wait()
}

// routed returns the default broker, and the others by name.
func (o *outlets) routed() (settle.Publisher, map[string]settle.Publisher) {
	others := map[string]settle.Publisher{}
	for _, one := range o.all[1:] {
		others[one.name] = one
	}
	return o.all[0], others
}

// warnings are those of all brokers that were reached.
func (o *outlets) warnings() []string {
	var all []string
	for _, one := range o.all {
		one.mu.Lock()
		for _, text := range one.warnings {
			all = append(all, "broker "+one.called()+": "+text)
		}
		one.mu.Unlock()
	}
	return all
}

// ask returns the first broker that takes nothing, or nil.
func (o *outlets) ask() *lost {
	for _, one := range o.all {
		if l := one.lost(); l != nil {
			return l
		}
	}
	return nil
}
