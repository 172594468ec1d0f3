package drill

import (
	"context"
	"path/filepath"
)

// prove reads everything back and checks it.
func (r *run) prove(ctx context.Context, broker *crew) (*Report, error) {
	f, err := OpenFacts(ctx, filepath.Join(r.cfg.Dir, FactsFile))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if err := r.awaitBroker(ctx); err != nil {
		return nil, err
	}
	if err := f.CopyLog(ctx, r.sys.Tap, r.sys.Topic); err != nil {
		return nil, err
	}
	broker.end()
	if err := r.sys.Export(ctx, f); err != nil {
		return nil, err
	}
	if r.sys.Unplaced {
		if err := f.unplace(ctx); err != nil {
			return nil, err
		}
	}
	if err := f.addClients(ctx, r.cfg.Requests, r.feed); err != nil {
		return nil, err
	}
	if err := f.addPlanted(ctx, r.planted); err != nil {
		return nil, err
	}
	report := &Report{Seed: r.cfg.Seed, Dir: r.cfg.Dir, Began: r.began, Marks: r.marks, DeadLettersLeft: int64(r.cfg.Leave)}
	if err := f.Count(ctx, report); err != nil {
		return nil, err
	}
	c, err := r.sys.Counters()
	if err != nil {
		return nil, err
	}
	report.Deliveries.Received, report.Deliveries.Duplicate, report.Deliveries.Ignored = c.Received, c.Duplicate, c.Ignored
	for _, name := range r.cfg.Faults {
		report.Faults = append(report.Faults, FaultCount{Name: name, Times: r.times[name]})
	}
	report.Invariants, err = f.Check(ctx)
	report.Invariants = append(report.Invariants, livesInvariant(r.lives()))
	return report, err
}

func (r *run) lives() []Lives {
	lives := r.standIns
	for _, c := range r.roles() {
		lives = append(lives, c.Lives())
	}
	if r.sys.Broker != nil {
		lives = append(lives, r.sys.Broker.Lives())
	}
	return lives
}
