package shop

import (
	"context"
	"fmt"
	"slices"

	"github.com/settlemq/settle/govern"
)

// view looks at the databases of all services, whether the shop runs or not.
type view struct {
	services   crowd
	orders     *orderService
	federation *govern.Federation
	// handles names the services that handle an event type.
	handles map[string][]string
}

// openView opens the databases of the shop in dir. A directory without a shop
// is an error and stays as it is.
func openView(ctx context.Context, dir string) (*view, error) {
	if there, _ := Holds(dir); !there {
		return nil, fmt.Errorf("open shop: %s holds none (there is no order.db)", dir)
	}
	services, err := openCrowd(ctx, Config{Dir: dir}, serviceNames()...)
	if err != nil {
		return nil, err
	}
	return newView(services), nil
}

// newView looks at all services.
func newView(services crowd) *view {
	v := &view{services: services, orders: services.named("order").participant.(*orderService), handles: map[string][]string{}}
	var sources []govern.Source
	for _, m := range services {
		sources = append(sources, govern.Source{Name: m.name, Store: m.db.Governance})
		for _, r := range m.reactions() {
			v.handles[r.on] = append(v.handles[r.on], m.name)
		}
	}
	v.federation = govern.NewFederation(sources...)
	return v
}

func (v *view) close() error { return v.services.close() }

// status reads one order and says whether it has settled, and if not why not;
// ErrNoOrder if it is not there.
func (v *view) status(ctx context.Context, id string) (OrderStatus, error) {
	o, err := v.orders.status(ctx, id)
	if err != nil {
		return o, err
	}
	s := standing{order: o, handles: v.handles}
	if err := v.gather(ctx, &s); err != nil {
		return o, fmt.Errorf("look at order %s: %w", id, err)
	}
	o.Waiting = s.waiting()
	o.Settled = o.Waiting == ""
	return o, nil
}

// gather asks each service what it knows of an order. One that does not answer
// is named; it is an error only when ctx is done.
func (v *view) gather(ctx context.Context, s *standing) error {
	for _, m := range v.services {
		if err := s.ask(ctx, m); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			s.silent = append(s.silent, m.name)
		}
	}
	slices.SortStableFunc(s.steps, func(a, b govern.Step) int { return a.At.Compare(b.At) })
	return nil
}
