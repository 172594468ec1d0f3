package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/examples/shop"
)

// watchShop says how far the shop is, whenever that changes.
func (a *app) watchShop(ctx context.Context, dir string) {
	var watch *drill.Watch
	last, pause := "", time.Second
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		began := time.Now()
		if watch == nil {
			services, w, err := openServices(dir)
			if err != nil {
				continue // the services may still be making their tables
			}
			defer closeServices(services)
			watch = w
		}
		open, err := shop.Unsettled(ctx, dir)
		if err != nil {
			continue
		}
		// Asked after the orders: what ended meanwhile is counted here.
		state, err := watch.State(ctx)
		if err != nil {
			continue
		}
		// Looking must not become the shop's work.
		pause = max(time.Second, 10*time.Since(began))
		now := shopStanding{open: open, waiting: max(0, int(state.Behind+state.Unpublished+state.Replaying)), dead: int(state.DeadOpen)}
		if news := now.news(); news != last {
			last = news
			_, _ = fmt.Fprintln(a.Err, now.line(dir))
		}
	}
}

// openServices opens the databases of the shop in dir, as shop.Services, to be
// watched. They are to be closed.
func openServices(dir string) ([]*drill.Service, *drill.Watch, error) {
	databases, err := shop.Databases(dir)
	if err != nil {
		return nil, nil, err
	}
	var services []*drill.Service
	for _, d := range databases {
		s, err := drill.OpenService(d.Service, d.URL)
		if err != nil {
			closeServices(services)
			return nil, nil, err
		}
		services = append(services, s)
	}
	handles := map[string][]string{}
	for _, s := range shop.Services() {
		handles[s.Name] = s.Handles
	}
	return services, drill.NewWatch(services, handles), nil
}

func closeServices(services []*drill.Service) {
	for _, s := range services {
		_ = s.Close()
	}
}

// shopStanding is how far a shop is.
type shopStanding struct {
	open    []shop.UnsettledOrder
	waiting int // events that somebody has yet to publish or to handle
	dead    int // letters that wait for a person
}

// news changes when there is something to tell. The age and the cause change
// all the time; they are no news.
func (s shopStanding) news() string {
	waiting := s.waiting
	if len(s.open) > 0 {
		waiting = 0
	}
	return fmt.Sprint(len(s.open), waiting, s.dead)
}

// line says what has not settled, and what waits for a person.
func (s shopStanding) line(dir string) string {
	var words []string
	switch {
	case len(s.open) > 0:
		first := s.open[0]
		words = append(words, fmt.Sprintf("%s not settled; the oldest waits for %s: %s",
			count(len(s.open), "order has", "orders have"), first.Age.Round(time.Second), legible(first.Cause)))
	case s.waiting > 0:
		words = append(words, "every order has ended; "+count(s.waiting, "event waits", "events wait")+" to be handled")
	}
	if s.dead > 0 {
		words = append(words, fmt.Sprintf("%s for a person: settle dead list --dir %s", count(s.dead, "dead letter waits", "dead letters wait"), shellWords([]string{dir})))
	}
	if len(words) == 0 {
		return "every order has settled"
	}
	return strings.Join(words, "; ")
}
