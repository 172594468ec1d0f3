//go:build linux

package lossydisk_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/broker/nats/embedded"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/sqlite"
)

// The machine that loses power is a child process of the test: a producer, a
// relay, a broker and a consumer on one lossy disk. It tells on its standard
// output what it was promised: "committed ID" when a commit returned, "sent
// ID" when the broker's acknowledgement was recorded.

const (
	envMachine = "SETTLE_TEST_MACHINE" // the directory of the machine that this process is
	envSync    = "SETTLE_TEST_SYNC"    // how often its broker syncs
	topic      = "orders"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(envMachine); dir != "" {
		if err := machine(dir); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// machine runs until it is killed.
func machine(dir string) error {
	ctx := context.Background()
	pause, err := time.ParseDuration(os.Getenv(envSync))
	if err != nil {
		return err
	}
	server, err := embedded.Start(embedded.Config{Dir: filepath.Join(dir, "broker"), SyncInterval: pause})
	if err != nil {
		return err
	}
	producer, err := sqlite.Open(ctx, filepath.Join(dir, "producer.db"), sqlite.Config{})
	if err != nil {
		return err
	}
	effects, err := sqlite.Open(ctx, filepath.Join(dir, "effects.db"), sqlite.Config{})
	if err != nil {
		return err
	}
	if _, err := effects.DB().ExecContext(ctx, `CREATE TABLE IF NOT EXISTS effect (event_id TEXT NOT NULL)`); err != nil {
		return err
	}
	broker, err := nats.Open(ctx, server.URL(), nats.Config{Topics: []string{topic}})
	if err != nil {
		return err
	}
	out := &lines{w: bufio.NewWriter(os.Stdout)}
	send := relay.New(producer.Log(), broker, relay.Config{LeaseTTL: 300 * time.Millisecond, SuspectAfter: 100, OnSent: func(sent []relay.Sent) {
		for _, s := range sent {
			out.say("sent", s.EventID)
		}
	}})
	apply := consumer.New("counting", broker, effects.Inbox(), consumer.Config{Topics: []string{topic}, LeaseTTL: 300 * time.Millisecond, SuspectAfter: 100})
	apply.Handle("order.created", func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO effect VALUES (?)`, e.ID)
		return err
	})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return server.Run(ctx) })
	g.Go(func() error { return send.Run(ctx) })
	g.Go(func() error { return apply.Run(ctx) })
	if os.Getenv(envMachine+"_QUIET") == "" {
		g.Go(func() error { return produce(ctx, producer, out) })
	} else {
		g.Go(func() error { return awaitEffects(ctx, producer, effects, out) })
	}
	return g.Wait()
}

// awaitEffects says "settled" once every event has had its effect.
func awaitEffects(ctx context.Context, producer, effects *sqlite.Store, out *lines) error {
	for {
		var appended, applied int
		if err := producer.Reader().QueryRowContext(ctx, `SELECT count(*) FROM t_outbox_event`).Scan(&appended); err != nil {
			return err
		}
		if err := effects.Reader().QueryRowContext(ctx, `SELECT count(DISTINCT event_id) FROM effect`).Scan(&applied); err != nil {
			return err
		}
		if applied == appended {
			out.say("settled", fmt.Sprint(applied))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func produce(ctx context.Context, db *sqlite.Store, out *lines) error {
	for i := 0; ; i++ {
		tx, err := db.Begin(ctx)
		if err != nil {
			return err
		}
		e := &settle.Event{Type: "order.created", AggregateType: "order", AggregateID: fmt.Sprint("o-", i%50), Topic: topic, Payload: []byte(`{"filler":"` + strings.Repeat("x", 200) + `"}`)}
		if err := db.Append(ctx, tx, e); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		out.say("committed", e.ID)
	}
}

// lines writes whole lines, each at once: a promise that was not told is none.
type lines struct {
	mu sync.Mutex
	w  *bufio.Writer
}

func (l *lines) say(what, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintln(l.w, what, id)
	_ = l.w.Flush()
}

// promises are what a machine told before it lost power.
type promises struct{ committed, sent []string }

// live runs the machine in dir until it has told enough, then kills it.
func live(t *testing.T, dir, sync string, enough int) promises {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), envMachine+"="+dir, envSync+"="+sync)
	var errs bytes.Buffer
	child.Stderr = &errs
	pipe, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var p promises
	killed := false
	for s := bufio.NewScanner(pipe); s.Scan(); {
		what, id, _ := strings.Cut(s.Text(), " ")
		switch what {
		case "committed":
			p.committed = append(p.committed, id)
		case "sent":
			p.sent = append(p.sent, id)
		}
		if !killed && len(p.sent) >= enough {
			killed = true
			_ = child.Process.Kill()
		}
	}
	_ = child.Wait()
	if !killed {
		t.Fatalf("the machine ended by itself after %d sent:\n%s", len(p.sent), errs.Bytes())
	}
	return p
}

func TestNothingPromisedIsLostWhenThePowerGoes(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("SKIPPED: a long run; scripts/test all includes it")
	}
	disk, at, behind := mount(t)
	var all promises
	for round := range 6 {
		p := live(t, at, "0s", 150+round*40)
		all.committed = append(all.committed, p.committed...)
		all.sent = append(all.sent, p.sent...)
		if err := disk.Cut(); err != nil {
			t.Fatal(err)
		}
	}
	stats := disk.Stats()
	t.Logf("%d committed, %d sent; the disk synced %d times and lost %d bytes of %d files", len(all.committed), len(all.sent), stats.Syncs, stats.LostBytes, stats.LostFiles)
	if stats.LostBytes == 0 {
		t.Fatal("the disk lost nothing, so this proves nothing")
	}
	settleDown(t, at)
	if err := disk.Close(); err != nil {
		t.Fatal(err)
	}
	checkMachine(t, behind, all)
}

// settleDown runs relay and consumer until every event has its effect.
func settleDown(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), envMachine+"="+dir, envSync+"=0s", envMachine+"_QUIET=1")
	var errs bytes.Buffer
	child.Stderr = &errs
	pipe, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	settled := false
	for s := bufio.NewScanner(pipe); s.Scan(); {
		if strings.HasPrefix(s.Text(), "settled ") && !settled {
			settled = true
			_ = child.Process.Kill()
		}
	}
	_ = child.Wait()
	if !settled {
		t.Fatalf("not every event had its effect within 5 minutes:\n%s", errs.Bytes())
	}
}

func checkMachine(t *testing.T, dir string, p promises) {
	t.Helper()
	outbox := set(t, filepath.Join(dir, "producer.db"), `SELECT event_id FROM t_outbox_event`)
	if lost := missing(p.committed, outbox); len(lost) > 0 {
		t.Errorf("%d of %d committed events are gone from the outbox, the first is %s", len(lost), len(p.committed), lost[0])
	}
	log := brokerLog(t, dir)
	if lost := missing(p.sent, log); len(lost) > 0 {
		t.Errorf("%d of %d acknowledged events are gone from the broker's log, the first is %s", len(lost), len(p.sent), lost[0])
	}
	effects := filepath.Join(dir, "effects.db")
	if twice := count(t, effects, `SELECT count(*) - count(DISTINCT event_id) FROM effect`); twice != 0 {
		t.Errorf("%d effects happened more than once", twice)
	}
	if lost := missing(p.committed, set(t, effects, `SELECT event_id FROM effect`)); len(lost) > 0 {
		t.Errorf("%d committed events have no effect", len(lost))
	}
}

// With a broker that syncs once a minute the same check finds acknowledged
// events that are gone: the disk and the check bite.
func TestThePowerCutFindsABrokerThatAcknowledgesBeforeItSyncs(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("SKIPPED: a long run; scripts/test all includes it")
	}
	disk, at, behind := mount(t)
	p := live(t, at, "1m", 400)
	if err := disk.Cut(); err != nil {
		t.Fatal(err)
	}
	if err := disk.Close(); err != nil {
		t.Fatal(err)
	}
	lost := missing(p.sent, brokerLog(t, behind))
	t.Logf("%d of %d acknowledged events are gone", len(lost), len(p.sent))
	if len(lost) == 0 {
		t.Error("a broker that syncs once a minute lost nothing: the test would not notice a missing fsync")
	}
	if lost := missing(p.committed, set(t, filepath.Join(behind, "producer.db"), `SELECT event_id FROM t_outbox_event`)); len(lost) > 0 {
		t.Errorf("%d committed events are gone from the outbox", len(lost))
	}
}

func brokerLog(t *testing.T, dir string) map[string]bool {
	t.Helper()
	server, err := embedded.Start(embedded.Config{Dir: filepath.Join(dir, "broker")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	tap, err := nats.OpenTap(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tap.Close() }()
	log := map[string]bool{}
	first, last, err := tap.Bounds(t.Context(), topic)
	if err != nil || last == 0 {
		return log // the cut took the whole topic
	}
	err = tap.ReadLog(t.Context(), topic, first, last, func(r settle.Record) error {
		if r.Event != nil {
			log[r.Event.ID] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func missing(promised []string, have map[string]bool) (lost []string) {
	for _, id := range promised {
		if !have[id] {
			lost = append(lost, id)
		}
	}
	return lost
}

func set(t *testing.T, path, query string) map[string]bool {
	t.Helper()
	have := map[string]bool{}
	rows := read(t, path, query)
	for _, id := range rows {
		have[id] = true
	}
	return have
}

func count(t *testing.T, path, query string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(read(t, path, query)[0], &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func read(t *testing.T, path, query string) (column []string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			t.Fatal(err)
		}
		column = append(column, v)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return column
}
