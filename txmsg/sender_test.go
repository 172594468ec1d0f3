package txmsg_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/txmsg"
	"github.com/settlemq/settle/txmsg/txmsgtest"
)

// shop is a sender with its database and broker.
type shop struct {
	*testing.T
	ledger *ledger
	broker *txmsgtest.Memory
	sender *txmsg.Sender[*tx]
}

func quick() txmsg.Config {
	return txmsg.Config{
		SweepAfter: time.Millisecond, SweepEvery: 5 * time.Millisecond, Retry: settle.Backoff{Base: time.Millisecond, Attempts: 3},
		Logger: slog.New(slog.DiscardHandler), Owner: "p1", ChecksPerSecond: 100_000,
	}
}

// patient leaves everything to the checks.
func patient() txmsg.Config {
	c := quick()
	c.SweepAfter, c.SweepEvery = time.Hour, time.Hour
	return c
}

func open(t *testing.T, l *ledger, b *txmsgtest.Memory, cfg txmsg.Config) *shop {
	t.Helper()
	s := &shop{T: t, ledger: l, broker: b, sender: txmsg.New(l, b.Connect(), cfg)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.sender.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	s.await("it is ready", func() bool { return s.sender.Stats().Ready })
	return s
}

func (s *shop) await(what string, is func() bool) {
	s.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("waited in vain until %s; it stands so: %+v", what, s.sender.Stats())
		}
	}
}

func (s *shop) send(f func(ctx context.Context, t *tx) error) (txmsg.Sent, error) {
	return s.sender.Send(context.Background(), event(), f)
}

func order(_ context.Context, t *tx) error {
	t.rows = append(t.rows, "order o-1")
	return nil
}

func TestACommittedEventIsDeliveredWholeAndConfirmed(t *testing.T) {
	s := open(t, newLedger(), &txmsgtest.Memory{}, patient())
	sent, err := s.send(order)
	if err != nil || !sent.Confirmed {
		t.Fatalf("Send: %+v, %v", sent, err)
	}
	log := s.broker.Log()
	if len(log) != 1 || log[0].ID != sent.ID || log[0].Message.Event.Headers["team"] != "sales" || string(log[0].Message.Event.Payload) != `{"total":1.10}` {
		t.Fatalf("consumers have %+v", log)
	}
	s.await("the record is confirmed", func() bool { r, _ := s.ledger.find(); return r.confirmed })
	if n := s.broker.Ask(); n != 0 {
		t.Errorf("the broker asks for %d half messages", n)
	}
}

func TestWhatTheCallerRefusesIsRolledBackAndNeverDelivered(t *testing.T) {
	s := open(t, newLedger(), &txmsgtest.Memory{}, patient())
	no := errors.New("out of stock")
	_, err := s.send(func(_ context.Context, t *tx) error {
		t.rows = append(t.rows, "half an order")
		return no
	})
	if !errors.Is(err, txmsg.ErrRolledBack) || !errors.Is(err, no) {
		t.Fatalf("Send: %v", err)
	}
	if log := s.broker.Log(); len(log) != 0 || len(s.ledger.facts) != 0 {
		t.Errorf("consumers have %+v, the database has %v", log, s.ledger.facts)
	}
	if a := s.ledger.answers(); len(a) != 1 || a[0].ByBroker || !strings.Contains(a[0].Cause, "out of stock") {
		t.Errorf("the roll-back is recorded as %+v", a)
	}
}

func TestAPanicOfTheCallerRollsBackAndGoesOn(t *testing.T) {
	s := open(t, newLedger(), &txmsgtest.Memory{}, patient())
	func() {
		defer func() {
			if p := recover(); p != "mine" {
				t.Errorf("the panic came out as %v", p)
			}
		}()
		_, _ = s.send(func(context.Context, *tx) error { panic("mine") })
	}()
	if n := s.broker.Ask(); n != 0 || len(s.broker.Log()) != 0 {
		t.Errorf("the half message is still there, %d asked for", n)
	}
}

func TestAHalfMessageThatIsNotAcknowledgedBeginsNothing(t *testing.T) {
	s := open(t, newLedger(), &txmsgtest.Memory{}, patient())
	s.broker.Refuse(&settle.PublishError{Scope: settle.ScopeBroker, Err: errors.New("flush timed out")})
	_, err := s.send(func(context.Context, *tx) error {
		t.Error("the local transaction was begun")
		return nil
	})
	if !errors.Is(err, txmsg.ErrNotSent) {
		t.Fatalf("Send: %v", err)
	}
}

func TestACommitOfUnknownOutcomeIsSettledByTheRow(t *testing.T) {
	for _, kept := range []bool{true, false} {
		s := open(t, newLedger(), &txmsgtest.Memory{}, patient())
		s.ledger.set(func(l *ledger) { l.doubt, l.kept = true, kept })
		_, err := s.send(order)
		if kept && (err != nil || len(s.broker.Log()) != 1) {
			t.Errorf("it was kept: %v, consumers have %d", err, len(s.broker.Log()))
		}
		if !kept && (!errors.Is(err, txmsg.ErrRolledBack) || len(s.broker.Log()) != 0) {
			t.Errorf("it was not kept: %v, consumers have %d", err, len(s.broker.Log()))
		}
	}
}

func TestADatabaseThatStaysSilentLeavesADoubtThatTheCheckSettles(t *testing.T) {
	s := open(t, newLedger(), &txmsgtest.Memory{}, patient())
	s.ledger.set(func(l *ledger) { l.doubt, l.kept = true, true })
	_, err := s.send(func(ctx context.Context, x *tx) error {
		// The process can't reach the database from here on.
		defer s.ledger.set(func(l *ledger) { l.down = errors.New("no route") })
		return order(ctx, x)
	})
	if !errors.Is(err, txmsg.ErrInDoubt) {
		t.Fatalf("Send: %v", err)
	}
	s.broker.Ask()
	s.await("the check is answered with UNKNOWN", func() bool { return s.sender.Stats().CheckedUnknown == 1 })
	s.ledger.set(func(l *ledger) { l.down = nil })
	s.broker.Ask()
	s.await("it is delivered", func() bool { return len(s.broker.Log()) == 1 })
}

func TestALostEndIsMadeUpForByTheCheck(t *testing.T) {
	s := open(t, newLedger(), &txmsgtest.Memory{}, patient())
	s.broker.LoseEnds(1)
	sent, err := s.send(order)
	if err != nil || sent.Confirmed || sent.Cause == nil {
		t.Fatalf("Send: %+v, %v", sent, err)
	}
	if n := s.broker.Ask(); n != 1 {
		t.Fatalf("the broker asks for %d", n)
	}
	s.await("it is delivered", func() bool { return len(s.broker.Log()) == 1 })
	s.await("the record is confirmed", func() bool { r, _ := s.ledger.find(); return r.confirmed })
	if a := s.ledger.answers(); len(a) != 1 || !a[0].ByBroker || a[0].Verdict != txmsg.Commit || a[0].Owner != "p1" {
		t.Errorf("the check is recorded as %+v", a)
	}
}

func TestALostEndIsMadeUpForByTheSweepWithoutACheck(t *testing.T) {
	s := open(t, newLedger(), &txmsgtest.Memory{}, quick())
	s.broker.LoseEnds(1)
	if _, err := s.send(order); err != nil {
		t.Fatal(err)
	}
	s.await("it is delivered", func() bool { return len(s.broker.Log()) == 1 })
	s.await("the record is confirmed", func() bool { r, _ := s.ledger.find(); return r.confirmed })
}

func TestWhatTheBrokerHasGivenUpIsSentAnew(t *testing.T) {
	s := open(t, newLedger(), &txmsgtest.Memory{}, quick())
	sent, err := s.send(func(ctx context.Context, x *tx) error {
		s.broker.GiveUp()
		return order(ctx, x)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.await("it is delivered", func() bool { return len(s.broker.Log()) >= 1 })
	if d := s.broker.Log()[0]; d.ID != sent.ID || d.Message.ID != d.Message.Event.ID || d.Message.Event.Headers["team"] != "sales" {
		t.Errorf("delivered was %+v", d)
	}
	s.await("the record is confirmed", func() bool { r, _ := s.ledger.find(); return r.confirmed })
	if n := s.sender.Stats().Anew; n != 1 {
		t.Errorf("%d were sent anew", n)
	}
}

func TestWhatTheBrokerRefusesForGoodIsGivenUpAndABrokerThatIsAwayIsWaitedFor(t *testing.T) {
	s := open(t, newLedger(), &txmsgtest.Memory{}, quick())
	refuse := func(scope settle.Scope) { s.broker.Refuse(&settle.PublishError{Scope: scope, Err: errors.New("no")}) }
	if _, err := s.send(func(ctx context.Context, x *tx) error {
		refuse(settle.ScopeBroker)
		return order(ctx, x)
	}); err != nil {
		t.Fatal(err)
	}
	s.await("the broker is in trouble", func() bool { return s.sender.Stats().Trouble == txmsg.TroubleBroker })
	s.await("the record was put off", func() bool { r, _ := s.ledger.find(); return r.cause != "" })
	if r, _ := s.ledger.find(); r.dead || r.tries != 0 {
		t.Errorf("a broker that is away costs tries: %+v", r)
	}
	refuse(settle.ScopeTopic)
	s.await("the record was put off again", func() bool { r, _ := s.ledger.find(); return r.cause == "topic: no" })
	if r, _ := s.ledger.find(); r.dead || r.tries != 0 {
		t.Errorf("a topic that takes nothing costs tries: %+v", r)
	}
	refuse(settle.ScopeRecord)
	s.await("it is given up", func() bool { r, _ := s.ledger.find(); return r.dead && r.tries == 3 })
	s.await("it is counted", func() bool { return s.sender.Stats().GivenUp == 1 })
}

func TestACheckDuringASlowTransactionIsAnsweredWithUnknown(t *testing.T) {
	s := open(t, newLedger(), &txmsgtest.Memory{}, patient())
	_, err := s.send(func(ctx context.Context, x *tx) error {
		s.broker.Ask()
		s.await("the check is answered", func() bool { return s.sender.Stats().CheckedUnknown == 1 })
		return order(ctx, x)
	})
	if err != nil || len(s.broker.Log()) != 1 {
		t.Fatalf("Send: %v, consumers have %d", err, len(s.broker.Log()))
	}
	s.await("the answer is recorded", func() bool { return len(s.ledger.answers()) == 1 })
}

func TestAnotherProcessAnswersForADeadOne(t *testing.T) {
	l, b := newLedger(), &txmsgtest.Memory{}
	first := txmsg.New(l, b.Connect(), patient())
	ctx, cancel := context.WithCancel(context.Background())
	died := make(chan error, 1)
	go func() { died <- first.Run(ctx) }()
	for !first.Stats().Ready {
		time.Sleep(time.Millisecond)
	}
	b.LoseEnds(1)
	if _, err := first.Send(ctx, event(), order); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-died
	if b.Ask() != 0 || len(b.Log()) != 0 {
		t.Fatal("there is somebody to answer")
	}
	s := open(t, l, b, patient())
	b.Ask()
	s.await("it is delivered", func() bool { return len(b.Log()) == 1 })
}

func TestAForeignCheckIsLeftOpenAndCounted(t *testing.T) {
	s := open(t, newLedger(), &txmsgtest.Memory{}, patient())
	other := s.broker.Connect()
	e := event()
	if err := e.Prepare(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Half(context.Background(), txmsg.Half{ID: "elsewhere.1", Message: settle.Message{ID: e.ID, Event: e}}); err != nil {
		t.Fatal(err)
	}
	s.broker.Ask()
	s.await("it is counted", func() bool { return s.sender.Stats().Foreign == 1 })
	s.await("it is recorded", func() bool { return len(s.ledger.answers()) == 1 })
	if n := s.broker.Ask(); n != 1 {
		t.Errorf("the broker asks for %d: a foreign half message was ended", n)
	}
}

func TestAPanicInACheckIsContainedAndTheNextOneIsAnswered(t *testing.T) {
	s := open(t, newLedger(), &txmsgtest.Memory{}, patient())
	s.broker.LoseEnds(1)
	if _, err := s.send(order); err != nil {
		t.Fatal(err)
	}
	s.ledger.set(func(l *ledger) { l.panics = true })
	s.broker.Ask()
	s.await("the check is answered with UNKNOWN", func() bool { return s.sender.Stats().CheckedUnknown == 1 })
	s.broker.Ask()
	s.await("it is delivered", func() bool { return len(s.broker.Log()) == 1 })
}

func TestASenderThatDoesNotRunSendsNothing(t *testing.T) {
	b := &txmsgtest.Memory{}
	idle := patient()
	idle.HalfTimeout = 10 * time.Millisecond
	s := txmsg.New(newLedger(), b.Connect(), idle)
	if _, err := s.Send(context.Background(), event(), order); !errors.Is(err, txmsg.ErrNotRunning) {
		t.Errorf("Send before Run: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	for !s.Stats().Ready {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := s.Send(context.Background(), event(), order); !errors.Is(err, txmsg.ErrNotRunning) {
		t.Errorf("Send after Run: %v", err)
	}
	if err := s.Run(context.Background()); err == nil {
		t.Error("a second Run is no error")
	}
}

func TestADelayedEventIsRefused(t *testing.T) {
	s := open(t, newLedger(), &txmsgtest.Memory{}, patient())
	e := event()
	e.NotBefore = time.Now().Add(time.Hour)
	var invalid *settle.InvalidEventError
	if _, err := s.sender.Send(context.Background(), e, order); !errors.As(err, &invalid) || invalid.Field != "notBefore" {
		t.Errorf("Send: %v", err)
	}
}

func TestABrokerWithoutHalfMessagesIsRefusedWithTheWayOut(t *testing.T) {
	err := txmsg.Unsupported("Kafka")
	if !errors.Is(err, txmsg.ErrUnsupported) || !strings.Contains(err.Error(), "Kafka has no half messages; append the event to the outbox") {
		t.Errorf("it says: %v", err)
	}
}
