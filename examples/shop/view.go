package shop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/settlemq/settle/govern"
)

// view looks at the databases of all services, whether the shop runs or not.
type view struct {
	services   crowd
	orders     *orderService
	federation *govern.Federation
}

// openView opens the databases of the shop in dir. A directory without a shop
// is an error and stays as it is.
func openView(ctx context.Context, dir string) (*view, error) {
	if _, err := os.Stat(filepath.Join(dir, "order.db")); errors.Is(err, fs.ErrNotExist) {
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
	var sources []govern.Source
	for _, m := range services {
		sources = append(sources, govern.Source{Name: m.name, Store: m.db.Governance})
	}
	return &view{services: services, orders: services.named("order").participant.(*orderService), federation: govern.NewFederation(sources...)}
}

func (v *view) close() error { return v.services.close() }

// waiting says what an order that is not settled waits for: the last thing
// that happened on its way.
func (v *view) waiting(ctx context.Context, id string) (string, error) {
	journey, err := v.federation.Trail(ctx, id)
	if err != nil {
		return "", err
	}
	for _, silent := range journey.Silent {
		return "not known: the " + silent + " service does not answer", nil
	}
	last := govern.Step{Stage: govern.StageMissing}
	for _, s := range journey.Steps {
		if s.Key == id {
			last = s
		}
	}
	return describe(last), nil
}

func describe(s govern.Step) string {
	switch s.Stage {
	case govern.StageAppended:
		return s.EventType + " waits to be published"
	case govern.StagePublished:
		return s.EventType + " was published, nobody has taken it yet"
	case govern.StageParked:
		at := ""
		if s.NextAt != nil {
			at = " at " + s.NextAt.UTC().Format(time.RFC3339)
		}
		return fmt.Sprintf("%s is tried again%s after %d attempts: %s", s.EventType, at, s.Attempts, s.Note)
	case govern.StageDead:
		return fmt.Sprintf("%s is a dead letter: %s", s.EventType, s.Note)
	case govern.StageDiscarded:
		return fmt.Sprintf("%s was discarded: %s", s.EventType, s.Note)
	case govern.StageReplay:
		return s.EventType + " is being replayed"
	case govern.StageMissing:
		return "nothing is known of its events"
	}
	return fmt.Sprintf("%s was %s by %s", s.EventType, s.Stage, s.Group)
}
