package shop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/settlemq/settle/dial"
)

// Service is one service of the shop, as others see it; Databases says where
// it keeps its tables, and its consumer group has its name.
type Service struct {
	Name string
	// Handles are the event types that its group handles.
	Handles []string
	// Facts are the queries that copy what it knows into a scratch database, as
	// drill.Facts.Copy takes them.
	Facts string
}

// Services returns the services of the shop, the order service first.
func Services() []Service {
	var all []Service
	for _, d := range definitions() {
		s := Service{Name: d.name, Facts: exportOf(d.name)}
		for _, r := range d.new(base{}).reactions() {
			s.Handles = append(s.Handles, r.on)
		}
		all = append(all, s)
	}
	return all
}

// definition is what makes a service: its name, which its SQL goes by, and what
// it does.
type definition struct {
	name string
	new  func(base) participant
}

func definitions() []definition {
	return []definition{
		{"order", func(b base) participant { return newOrders(b) }},
		{"inventory", func(b base) participant { return newInventory(b) }},
		{"payment", func(b base) participant { return newPayment(b) }},
		{"risk", func(b base) participant { return newRisk(b) }},
		{"fulfilment", func(b base) participant { return newFulfilment(b) }},
		{"marketing", func(b base) participant { return newMarketing(b) }},
	}
}

// member is a service whose database is open.
type member struct {
	definition
	participant
	db *dial.Database
	// hangUp closes its connections to the outside systems.
	hangUp func()
}

// openMember opens one service by its name.
func openMember(ctx context.Context, name string, cfg Config) (*member, error) {
	i := slices.IndexFunc(definitions(), func(d definition) bool { return d.name == name })
	if i < 0 {
		return nil, fmt.Errorf("open service %s: there is none", name)
	}
	d := definitions()[i]
	db, err := openService(ctx, cfg.Dir, d.name, cfg.Crash)
	if err != nil {
		return nil, err
	}
	use, err := Broker(cfg.Dir)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	db.Outbox = onTopic{db.Outbox, use.Topic()}
	systems, hangUp := callOutside(cfg)
	b := base{db: db, now: time.Now, rules: cfg.Rules.withDefaults(), outside: systems}
	return &member{definition: d, participant: d.new(b), db: db, hangUp: hangUp}, nil
}

// crowd are the services that are open.
type crowd []*member

// openCrowd opens the services of these names, or none.
func openCrowd(ctx context.Context, cfg Config, names ...string) (crowd, error) {
	var c crowd
	for _, name := range names {
		m, err := openMember(ctx, name, cfg)
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c = append(c, m)
	}
	return c, nil
}

func (c crowd) named(name string) *member {
	for _, m := range c {
		if m.name == name {
			return m
		}
	}
	return nil
}

func (c crowd) close() error {
	var errs []error
	for _, m := range c {
		m.hangUp()
		errs = append(errs, m.db.Close())
	}
	return errors.Join(errs...)
}

// serviceNames returns the names of all services.
func serviceNames() []string {
	var names []string
	for _, d := range definitions() {
		names = append(names, d.name)
	}
	return names
}
