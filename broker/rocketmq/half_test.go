package rocketmq_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rocketmq"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
	"github.com/settlemq/settle/internal/services"
	"github.com/settlemq/settle/store/sqlite"
	"github.com/settlemq/settle/txmsg"
	"github.com/settlemq/settle/txmsg/txmsgtest"
)

func TestRocketMQKeepsTheContractOfHalfMessages(t *testing.T) {
	t.Parallel()
	at := serverForTest(t)
	txmsgtest.Run(t, func(t testing.TB) txmsgtest.Harness { return halfHarness(t, newRig(t, at)) })
}

func halfHarness(t testing.TB, r *rig) txmsgtest.Harness {
	group := "half-" + settle.NewID()
	again := func(t testing.TB) txmsg.Broker { return r.halves(t, group) }
	return txmsgtest.Harness{Broker: again(t), Again: again, Topic: r.topic, Log: r.events, TooLarge: 3 << 20, Patience: patience}
}

// A broker that has lost its disk gives places anew: what one record says was sent
// there may be another message by now.
func TestAnEndIsNotToldToAnotherMessageThatStandsInThePlace(t *testing.T) {
	t.Parallel()
	r := newRig(t, serverForTest(t))
	h := r.halves(t, "half-"+settle.NewID())
	e := &settle.Event{ID: settle.NewID(), Type: "order.created", AggregateID: "o-1", Topic: r.topic, Payload: []byte("{}")}
	sent, err := h.Half(t.Context(), txmsg.Half{ID: "own", Message: settle.Message{ID: e.ID, Event: e}})
	if err != nil {
		t.Fatal(err)
	}
	of := func(transaction string) txmsg.Handle {
		var fields map[string]any
		if err := json.Unmarshal([]byte(sent), &fields); err != nil {
			t.Fatal(err)
		}
		if fields["transaction"] != "own" {
			t.Fatalf("the handle is %s", sent)
		}
		fields["transaction"], fields["sent"] = transaction, 1
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return txmsg.Handle(text)
	}
	for _, v := range []txmsg.Verdict{txmsg.Commit, txmsg.Rollback} {
		if err := h.End(t.Context(), of("lost"), v); !errors.Is(err, txmsg.ErrGone) {
			t.Errorf("the end of one that is lost is told: %v", err)
		}
	}
	if err := h.End(t.Context(), of("own"), txmsg.Commit); err != nil {
		t.Fatal(err)
	}
	if all := r.events(t); len(all) != 1 || all[0].ID != e.ID {
		t.Errorf("consumers have %d events", len(all))
	}
}

// halves opens a producer of half messages.
func (r *rig) halves(t testing.TB, group string) *rocketmq.Halves {
	t.Helper()
	b := r.open(t, r.config())
	h, err := b.Halves(group)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(h.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// events reads all that consumers receive, with their headers.
func (r *rig) events(t testing.TB) (all []*settle.Event) {
	t.Helper()
	masters, numbers := r.queues(t)
	for n := range masters {
		r.readable(t, masters[n])
		for from, end := int64(0), int64(1); from < end; {
			found, err := r.wire.Pull(t.Context(), masters[n], remoting.Pulling{Group: "log", Topic: r.topic, Queue: numbers[n], Offset: from, MaxMessages: 32, MaxBytes: 4 << 20})
			if err != nil {
				t.Fatal(err)
			}
			end = found.End
			for _, m := range found.Messages {
				headers := map[string]string{}
				for pair := range strings.SplitSeq(m.Properties, "\x02") {
					if name, value, is := strings.Cut(pair, "\x01"); is {
						headers[name] = value
					}
				}
				e, err := settle.DecodeEnvelope(m.Body, headers)
				if err != nil {
					t.Fatal(err)
				}
				e.Headers = headers
				all, from = append(all, e), m.Offset+1
			}
		}
	}
	return all
}

// service is one process that sends orders as half messages.
type service struct {
	testing.TB
	store  *sqlite.Store
	sender *txmsg.Sender[*sql.Tx]
	// sever cuts it off from the broker; kill ends it then. To the broker and the
	// database that is what SIGKILL is.
	sever, kill func()
}

// process starts one on a file of its service.
func (r *rig) process(t testing.TB, file, group string, cfg txmsg.Config) *service {
	t.Helper()
	s, err := sqlite.Open(context.Background(), file, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.DB().Exec(`CREATE TABLE IF NOT EXISTS orders (event_id TEXT PRIMARY KEY) STRICT`); err != nil {
		t.Fatal(err)
	}
	b := r.open(t, r.config())
	h, err := b.Halves(group)
	if err != nil {
		t.Fatal(err)
	}
	p := &service{TB: t, store: s, sender: txmsg.New(s.Halves(), h, cfg)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.sender.Run(ctx) }()
	ended := false
	p.sever = func() { _ = h.Close() }
	p.kill = func() {
		if ended {
			return
		}
		ended = true
		p.sever()
		cancel()
		if err := errors.Join(<-done, b.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { p.kill() })
	for end := time.Now().Add(patience); !p.sender.Stats().Ready; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it is not ready: %+v", p.sender.Stats())
		}
	}
	return p
}

func (p *service) order(ctx context.Context, topic string, between func()) (string, error) {
	e := &settle.Event{Type: "order.created", AggregateType: "order", AggregateID: "o-" + settle.NewID(), Topic: topic, Payload: []byte(`{}`)}
	_, err := p.sender.Send(ctx, e, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO orders (event_id) VALUES (?)`, e.ID)
		between()
		return err
	})
	return e.ID, err
}

func (p *service) count() (n int) {
	p.Helper()
	if err := p.store.Reader().QueryRow(`SELECT count(*) FROM orders`).Scan(&n); err != nil {
		p.Fatal(err)
	}
	return n
}

// settled waits until what was committed is exactly what consumers have, each at
// least once, and nothing is open.
func (r *rig) settled(t testing.TB, p *service) {
	t.Helper()
	for end := time.Now().Add(2 * patience); ; time.Sleep(50 * time.Millisecond) {
		missing, open := map[string]bool{}, 0
		rows, err := p.store.Reader().Query(`SELECT event_id FROM orders`)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			missing[id] = true
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
		orders := len(missing)
		phantom := 0
		seen := map[string]bool{}
		for _, e := range r.events(t) {
			if !missing[e.ID] && !seen[e.ID] {
				phantom++
			}
			seen[e.ID] = true
			delete(missing, e.ID)
		}
		if phantom > 0 {
			t.Fatalf("consumers have %d events whose orders are not there", phantom)
		}
		if err := p.store.Reader().QueryRow(`SELECT count(*) FROM t_half_message WHERE state = 'COMMITTED'`).Scan(&open); err != nil {
			t.Fatal(err)
		}
		if len(missing) == 0 && open == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("of %d orders %d are missing at consumers, %d are not confirmed: %+v", orders, len(missing), open, p.sender.Stats())
		}
	}
}

// What is in hand when a process dies is settled by another one of its group,
// wherever it was: before the record, or behind the commit.
func TestAProcessKilledBetweenHalfAndCommitIsAnsweredForByAnother(t *testing.T) {
	t.Parallel()
	killed(t, newRig(t, serverForTest(t)), 1)
}

func TestProcessesKilledBetweenHalfAndCommitAreAnsweredForByOthers(t *testing.T) {
	onlyWhenAll(t)
	killed(t, newRig(t, serverForTest(t)), 6)
}

// killed kills that many processes before their commit, and as many behind it.
func killed(t *testing.T, r *rig, times int) {
	file, group := filepath.Join(t.TempDir(), "order.db"), "half-"+settle.NewID()
	patient := txmsg.Config{SweepAfter: time.Hour, Source: "order"}
	for range times {
		before := r.process(t, file, group, patient)
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := before.order(ctx, r.topic, func() { before.sever(); cancel() }); err == nil {
			t.Error("a process that is killed before the commit has committed")
		}
		before.kill()
		behind := r.process(t, file, group, patient)
		if _, err := behind.order(t.Context(), r.topic, behind.sever); err != nil {
			t.Errorf("Send: %v", err)
		}
		behind.kill()
	}
	last := r.process(t, file, group, patient)
	if _, err := last.order(t.Context(), r.topic, func() {}); err != nil {
		t.Error(err)
	}
	if n := last.count(); n != times+1 {
		t.Errorf("there are %d orders, want %d", n, times+1)
	}
	r.settled(t, last)
	for end := time.Now().Add(patience); last.sender.Stats().CheckedRollback < int64(times); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not every half message without an order was dropped: %+v", last.sender.Stats())
		}
	}
	r.settled(t, last)
}

func TestHalfMessagesOutstandingSurviveABrokerThatIsKilled(t *testing.T) {
	onlyWhenAll(t)
	server := services.Up(t, []string{"rocketmq"})[0]
	r := newRig(t, server.URL())
	file, group := filepath.Join(t.TempDir(), "order.db"), "half-"+settle.NewID()
	p := r.process(t, file, group, txmsg.Config{SweepAfter: 2 * time.Second, SweepEvery: time.Second, EndTimeout: time.Second, HalfTimeout: time.Second})
	for round := range 3 {
		for n := range 20 {
			kill := n == 10
			_, err := p.order(t.Context(), r.topic, func() {
				if kill {
					server.Part("a").Kill()
				}
			})
			if err != nil && !errors.Is(err, txmsg.ErrNotSent) && !errors.Is(err, txmsg.ErrRolledBack) {
				t.Error(fmt.Errorf("round %d: %w", round, err))
			}
		}
		server.Part("a").Start()
	}
	r.settled(t, p)
	if p.count() < 30 {
		t.Errorf("only %d orders came about", p.count())
	}
}
