package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/relay"
)

var _ relay.Doorbell = (*Log)(nil)

// bell wakes relays that wait: those of this process by a channel, one of
// another by a notification. Nothing depends on it: whoever hears nothing
// polls.
type bell struct {
	mu    sync.Mutex
	rung  chan struct{} // closed and replaced at each ring
	last  time.Time     // when it was rung last
	leads int           // waits of this process

	ear sync.Mutex // held by the one who listens
	// direct is how the listener connects; nil behind a pooler, which may give
	// its session to somebody else.
	direct   *pgx.ConnConfig
	conn     *pgx.Conn
	deafTill time.Time // after a failure to connect
}

// quiet is how long nothing must have been appended by this process before a
// notification is worth its price: a relay that is busy polls anyway.
const quiet = 20 * time.Millisecond

const notify = `SELECT set_config('synchronous_commit', 'off', true), pg_notify(` + channel + `, '')`

// channel is what relays of a schema listen to; channels belong to a database.
const channel = `'settle_outbox_' || hashtext(current_schema())`

// Ring tells relays that something was appended and committed, so that an idle
// one need not wait for its next poll. Call it after the commit, never inside
// of the transaction. It asks the database for at most one notification per
// 20 ms, and for none while this process appends more often than that or has a
// relay of its own that waits. An error means that nobody was told.
func (s *Store) Ring(ctx context.Context) error {
	if !s.bell.ring(time.Now()) {
		return nil
	}
	_, err := s.own.Exec(ctx, notify)
	return err
}

// wake wakes all that wait in this process.
func (b *bell) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.rung)
	b.rung = make(chan struct{})
}

// ring wakes this process's relays and reports whether another's is to be told.
func (b *bell) ring(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.rung)
	b.rung = make(chan struct{})
	first := now.Sub(b.last) >= quiet
	b.last = now
	return first && b.leads == 0
}

// Wait implements relay.Doorbell.
func (l *Log) Wait(ctx context.Context, limit time.Duration) error {
	return l.s.bell.wait(ctx, limit)
}

func (b *bell) wait(ctx context.Context, limit time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	b.mu.Lock()
	rung := b.rung
	b.leads++
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.leads--
		b.mu.Unlock()
	}()
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		b.listen(waiting)
	}()
	select {
	case <-rung:
	case <-heard:
	}
	cancel()
	<-heard
	return ctx.Err()
}

// listen returns when a notification has come or ctx has ended. Without a
// connection it waits for the latter.
func (b *bell) listen(ctx context.Context) {
	if !b.ear.TryLock() {
		<-ctx.Done()
		return
	}
	defer b.ear.Unlock()
	if b.direct == nil || !b.connect(ctx) {
		<-ctx.Done()
		return
	}
	_, err := b.conn.WaitForNotification(ctx)
	if err == nil {
		b.wake() // relays of other lanes wait beside
	}
	if err != nil && b.conn.IsClosed() {
		b.conn = nil
		<-ctx.Done()
	}
}

// deafness is the pause after a listener could not connect.
const deafness = 5 * time.Second

func (b *bell) connect(ctx context.Context) bool {
	if b.conn != nil {
		return true
	}
	if time.Now().Before(b.deafTill) {
		return false
	}
	// The wait may be shorter than connecting takes.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, b.direct)
	if err == nil {
		err = listenOn(ctx, conn)
	}
	if err != nil {
		if conn != nil {
			_ = conn.Close(ctx)
		}
		b.deafTill = time.Now().Add(deafness)
		return false
	}
	b.conn = conn
	return true
}

const channelName = `SELECT ` + channel

func listenOn(ctx context.Context, conn *pgx.Conn) error {
	var name string
	if err := conn.QueryRow(ctx, channelName).Scan(&name); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, `LISTEN `+pgx.Identifier{name}.Sanitize())
	return err
}

func newBell() *bell { return &bell{rung: make(chan struct{})} }

// open lets relays of this process listen to those who ring in others.
func (b *bell) open(direct *pgx.ConnConfig) {
	b.ear.Lock()
	defer b.ear.Unlock()
	b.direct = direct
}

func (b *bell) close() error {
	b.ear.Lock()
	defer b.ear.Unlock()
	b.direct = nil
	if b.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := b.conn.Close(ctx)
	b.conn = nil
	return err
}
