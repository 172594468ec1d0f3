package rawbench

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/nats-io/nuid"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/sqlite"
)

// database is a Settle store with the one business table of the figures.
type database struct {
	*sqlite.Store
	topic string
}

func open(ctx context.Context, path, topic string) (database, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return database{}, err
	}
	s, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		return database{}, err
	}
	tx, err := s.Begin(ctx)
	if err != nil {
		return database{}, errors.Join(err, s.Close())
	}
	if _, err = tx.ExecContext(ctx, `CREATE TABLE effect (id INTEGER PRIMARY KEY AUTOINCREMENT, aggregate_id TEXT NOT NULL, amount INTEGER NOT NULL)`); err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return database{}, errors.Join(err, s.Close())
	}
	return database{s, topic}, nil
}

const insertEffect = `INSERT INTO effect (aggregate_id, amount) VALUES (?, ?)`

// fill appends events with their business rows, batch events per commit.
func (d database) fill(ctx context.Context, events, batch int) error {
	effect, err := d.DB().PrepareContext(ctx, insertEffect)
	if err != nil {
		return err
	}
	defer effect.Close()
	for done := 0; done < events; done += batch {
		tx, err := d.Begin(ctx)
		if err != nil {
			return err
		}
		for i := done; i < min(done+batch, events); i++ {
			e := sample(d.topic, i)
			if _, err := tx.StmtContext(ctx, effect).ExecContext(ctx, e.AggregateID, i); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			if err := d.Append(ctx, tx, e); err != nil {
				return errors.Join(err, tx.Rollback())
			}
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// until runs work until enough of what it counts has happened, and returns how
// long that took.
func until(ctx context.Context, enough int, work func(ctx context.Context, count func(n int)) error) (time.Duration, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var (
		began = time.Now()
		took  time.Duration
		seen  atomic.Int64
	)
	err := work(ctx, func(n int) {
		if total := seen.Add(int64(n)); total >= int64(enough) && total-int64(n) < int64(enough) {
			took = time.Since(began)
			stop()
		}
	})
	if err == nil && took == 0 {
		err = context.Cause(ctx)
	}
	return took, err
}

// relayAll runs a relay with its default config until events are sent.
func (d database) relayAll(ctx context.Context, pub settle.Publisher, events int) (time.Duration, error) {
	return until(ctx, events, func(ctx context.Context, count func(int)) error {
		return relay.New(d.Log(), pub, relay.Config{Name: "bench", OnSent: func(s []relay.Sent) { count(len(s)) }}).Run(ctx)
	})
}

// consumeAll runs a consumer with its default config until events are applied
// and committed. The handler makes one effect row for each event.
func (d database) consumeAll(ctx context.Context, sub settle.Subscriber, events int) (time.Duration, error) {
	effect, err := d.DB().PrepareContext(ctx, insertEffect)
	if err != nil {
		return 0, err
	}
	defer effect.Close()
	c := consumer.New("bench", sub, d.Inbox(), consumer.Config{Topics: []string{d.topic}})
	c.Handle("order.created", func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
		_, err := tx.StmtContext(ctx, effect).ExecContext(ctx, e.AggregateID, 1)
		return err
	})
	return until(ctx, events, func(ctx context.Context, count func(int)) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		applied := int64(0)
		for tick := time.NewTicker(2 * time.Millisecond); ; {
			select {
			case err := <-ended:
				tick.Stop()
				return err
			case <-tick.C:
				now := c.Stats().Applied
				count(int(now - applied))
				applied = now
			}
		}
	})
}

// EndToEnd appends events, 100 per commit, while a relay and a consumer with
// another database run beside it, and returns the time until the last effect
// is committed and the highest live heap in MB.
func EndToEnd(ctx context.Context, dir, url string, events int) (time.Duration, float64, error) {
	topic := "bench_" + nuid.Next() // what another run has left in a topic would be counted
	producer, err := open(ctx, filepath.Join(dir, "producer.db"), topic)
	if err != nil {
		return 0, 0, err
	}
	defer producer.Close()
	effects, err := open(ctx, filepath.Join(dir, "effects.db"), topic)
	if err != nil {
		return 0, 0, err
	}
	defer effects.Close()
	broker, err := nats.Open(ctx, url, nats.Config{Topics: []string{topic}})
	if err != nil {
		return 0, 0, err
	}
	defer broker.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 2)
	done, heap := make(chan struct{}), make(chan float64, 1)
	go func() { heap <- watchHeap(done) }()
	began := time.Now()
	go func() { failed <- relay.New(producer.Log(), broker, relay.Config{Name: "bench"}).Run(ctx) }()
	go func() { failed <- producer.fill(ctx, events, 100) }()
	_, err = effects.consumeAll(ctx, broker, events)
	took := time.Since(began)
	close(done)
	highest := <-heap
	stop()
	return took, highest, errors.Join(err, <-failed, <-failed)
}
