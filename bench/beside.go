package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// besides is what producers can do while a contender reads what they store:
// eight connections that store orders and their events as fast as they can, in
// turns with the contender at work and without.
type besides struct {
	// with and without are transactions a second of each turn.
	with, without []float64
	// Times of single transactions in ms, those with the contender and those
	// without.
	msWith, msWithout []float64
	// vain are transactions that were done again, after a deadlock or a wait
	// for a lock; stored and carried the events of turns with the contender,
	// and how many of them it had published when the turn ended.
	vain, stored, carried int
	// lost is what it has not published although it had nothing else to do.
	lost int
}

// mostPerSecond bounds how many transactions a second can be counted.
const mostPerSecond = 30_000

// workshop is a stand whose producers go on where they were.
type workshop struct {
	*stand
	turn time.Duration
	next int // number of the next event
	out  besides
}

// rest waits until the contender has published everything. What it never
// publishes, as the raw limit loses some, is not waited for again.
func (w *workshop) rest(ctx context.Context, relay *process) error {
	err := w.await(ctx, relay, w.next-w.out.lost)
	if errors.Is(err, errStopped) {
		w.out.lost, err = w.next-int(w.board.head.Published.Load()), nil
	}
	return err
}

// workBeside runs so many turns of each kind.
func (t trial) workBeside(ctx context.Context, s server, dir string, rounds int, turn time.Duration) (out besides, err error) {
	p, err := s.create(ctx, 0)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.remove(p)) }()
	t.events = int(float64(2*rounds+1) * turn.Seconds() * mostPerSecond)
	st := &stand{trial: t, server: s, place: p, path: filepath.Join(dir, p.name+".board")}
	if err := errors.Join(t.contender.layout.create(ctx, p), p.exec(ctx, t.engine.shop.tables)); err != nil {
		return out, fmt.Errorf("make the tables: %w", err)
	}
	if err := st.openBoard(); err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, st.board.close(), os.Remove(st.path)) }()
	w := workshop{stand: st, turn: turn}
	if _, _, _, err := w.work(ctx, turn/4); err != nil { // warm-up
		return out, err
	}
	for range rounds {
		if err := errors.Join(w.turnWith(ctx), w.turnWithout(ctx)); err != nil {
			return out, err
		}
	}
	return w.out, nil
}

// turnWith begins when the contender has nothing left to do, and leaves nothing.
func (w *workshop) turnWith(ctx context.Context) (err error) {
	w.board.head.Ready.Store(0)
	relay, err := w.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, relay.stop()) }()
	if err := w.begin(ctx, relay); err != nil {
		return err
	}
	if err := w.rest(ctx, relay); err != nil {
		return err
	}
	before, done := w.next, w.board.head.Published.Load()
	rate, ms, vain, err := w.work(ctx, w.turn)
	if err != nil {
		return err
	}
	w.out.carried += int(w.board.head.Published.Load() - done)
	w.out.stored, w.out.vain = w.out.stored+w.next-before, w.out.vain+vain
	w.out.with, w.out.msWith = append(w.out.with, rate), append(w.out.msWith, ms...)
	return w.rest(ctx, relay)
}

func (w *workshop) turnWithout(ctx context.Context) error {
	rate, ms, vain, err := w.work(ctx, w.turn)
	w.out.vain += vain
	w.out.without, w.out.msWithout = append(w.out.without, rate), append(w.out.msWithout, ms...)
	return err
}

// work lets the producers work for so long.
func (w *workshop) work(ctx context.Context, turn time.Duration) (rate float64, ms []float64, vain int, err error) {
	var conns [producing]*sql.Conn
	defer func() {
		for _, conn := range conns {
			if conn != nil {
				_ = conn.Close()
			}
		}
	}()
	for i := range conns {
		if conns[i], err = w.place.db.Conn(ctx); err != nil {
			return 0, nil, 0, err
		}
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	began := time.Now()
	for _, conn := range conns {
		group.Go(func() {
			times, again, failed := w.clerk(ctx, conn, began.Add(turn), &mu)
			mu.Lock()
			defer mu.Unlock()
			ms, vain, err = append(ms, times...), vain+again, errors.Join(err, failed)
		})
	}
	group.Wait()
	return float64(len(ms)) / time.Since(began).Seconds(), ms, vain, err
}

// clerk stores orders until a time and tells how long each has taken.
func (w *workshop) clerk(ctx context.Context, conn *sql.Conn, until time.Time, mu *sync.Mutex) (ms []float64, vain int, err error) {
	for time.Now().Before(until) && err == nil {
		mu.Lock()
		n := w.next
		if n == w.events {
			mu.Unlock()
			return ms, vain, errors.New("more events than can be counted")
		}
		w.next++
		mu.Unlock()
		began, again := time.Now(), 0
		again, err = w.place.insist(ctx, func() error { return w.order(ctx, conn, n) })
		ms, vain = append(ms, float64(time.Since(began).Microseconds())/1000), vain+again
	}
	return ms, vain, err
}

func (w *workshop) order(ctx context.Context, conn *sql.Conn, n int) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	id, key := eventID(n), eventKey(n, w.keys)
	if _, err := tx.ExecContext(ctx, w.engine.shop.order, id, key); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, w.engine.shop.line, id); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, w.contender.layout.insert, id, key, string(payload(n))); err != nil {
		return err
	}
	return tx.Commit()
}

// row sums it up.
func (b besides) row() besideRow {
	slices.Sort(b.msWith)
	slices.Sort(b.msWithout)
	r := besideRow{Measured: true, Rate: median(b.with), Without: median(b.without), Ratio: medianRatio(b.with, b.without), Vain: b.vain, Lost: b.lost}
	if len(b.msWith) > 0 && len(b.msWithout) > 0 {
		r.P50, r.P99, r.P99Without = quantile(b.msWith, 0.5), quantile(b.msWith, 0.99), quantile(b.msWithout, 0.99)
	}
	if b.stored > 0 {
		r.Carried = float64(b.carried) / float64(b.stored)
	}
	return r
}
