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

// View looks at a shop's databases, whether the shop runs or not. Its methods
// may be called from several goroutines.
type View struct {
	orders     *orderService
	inventory  *inventoryService
	federation *govern.Federation
}

// ViewConfig says how a View is opened. The zero value works.
type ViewConfig struct {
	// Crash is called at named points of acts (replay.before_commit …) by tests
	// that kill the process there. Defaults to nil: nothing.
	Crash func(point string)
}

// OpenView opens the databases of the shop in dir. A directory without a shop
// is an error and stays as it is.
func OpenView(ctx context.Context, dir string, cfg ViewConfig) (*View, error) {
	if _, err := os.Stat(filepath.Join(dir, "order.db")); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open shop: %s holds none (there is no order.db)", dir)
	}
	orders, err := openOrders(ctx, dir, cfg.Crash)
	if err != nil {
		return nil, err
	}
	inventory, err := openInventory(ctx, dir, cfg.Crash)
	if err != nil {
		return nil, errors.Join(err, orders.db.Close())
	}
	return newView(orders, inventory), nil
}

func newView(orders *orderService, inventory *inventoryService) *View {
	return &View{orders: orders, inventory: inventory, federation: govern.NewFederation(
		govern.Source{Name: "order", Store: orders.db.Governance},
		govern.Source{Name: "inventory", Store: inventory.db.Governance},
	)}
}

// Close closes the databases.
func (v *View) Close() error { return errors.Join(v.orders.db.Close(), v.inventory.db.Close()) }

// Federation returns governance over both services.
func (v *View) Federation() *govern.Federation { return v.federation }

// Order tells the status of one order; ErrNoOrder if it is not there.
func (v *View) Order(ctx context.Context, id string) (OrderStatus, error) {
	o, err := v.orders.status(ctx, id)
	if err == nil && !o.Settled {
		o.Waiting, err = v.waiting(ctx, id)
	}
	return o, err
}

// waiting says what an order that is not settled waits for: the last thing
// that happened on its way.
func (v *View) waiting(ctx context.Context, id string) (string, error) {
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
