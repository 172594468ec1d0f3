package bridge_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/bridge/bridgetest"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/sqlite"
)

// stand is a file, a broker in memory and bridges between them.
type stand struct {
	*testing.T
	path string
	db   *sqlite.Store
	m    *bridgetest.Memory
}

func newStand(t *testing.T, m *bridgetest.Memory) *stand {
	s := &stand{T: t, path: filepath.Join(t.TempDir(), "order.db"), m: m}
	s.db = s.open()
	return s
}

func (s *stand) open() *sqlite.Store {
	s.Helper()
	db, err := sqlite.Open(context.Background(), s.path, sqlite.Config{})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = db.Close() })
	return db
}

// run runs a bridge on a store as a process of its own would, until end, which
// waits for it.
func (s *stand) run(store bridge.Store, cfg bridge.Config) (b *bridge.Bridge, end func()) {
	s.Helper()
	conn := s.m.Connect()
	g, err := conn.Declare(context.Background(), bridge.Ladder{Topic: "orders", Group: "stock"})
	if err != nil {
		s.Fatal(err)
	}
	source, err := conn.Source(g)
	if err != nil {
		s.Fatal(err)
	}
	cfg.LookEvery, cfg.Logger = 5*time.Millisecond, slog.New(slog.DiscardHandler)
	if cfg.Retry == nil {
		cfg.Retry = settle.Backoff{Base: time.Millisecond, Max: 5 * time.Millisecond}
	}
	b = bridge.New("stock", store, source, cfg)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	var once sync.Once
	end = func() {
		once.Do(func() {
			stop()
			if err := <-ended; err != nil && !errors.Is(err, errAway) {
				s.Errorf("Run: %v", err)
			}
		})
	}
	s.Cleanup(end)
	return b, end
}

func (s *stand) die(id string) {
	s.Helper()
	e := &settle.Event{ID: id, Type: "order.created", AggregateID: "o-" + id, Payload: []byte("{}")}
	s.m.Publish(e.AggregateID, settle.AppendEnvelope(nil, e), map[string]string{settle.HeaderEventID: id})
	s.giveUp()
}

func (s *stand) giveUp() {
	s.Helper()
	if err := s.m.GiveUp(bridgetest.Failure{Exception: "E", Message: "no stock"}); err != nil {
		s.Fatal(err)
	}
}

func (s *stand) until(what string, is func() bool) {
	s.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("it did not come about that %s; dead letters are %+v", what, s.letters())
		}
	}
}

func (s *stand) letters() []govern.DeadLetter {
	s.Helper()
	found, err := s.db.Governance().DeadLetters(context.Background(), govern.Filter{State: "any"})
	if err != nil {
		s.Fatal(err)
	}
	return found
}

// kept waits until n letters are kept and none lies at the broker.
func (s *stand) kept(n int) []govern.DeadLetter {
	s.Helper()
	s.until("letters are kept and acknowledged", func() bool { return s.m.Lying() == 0 && len(s.letters()) >= n })
	if found := s.letters(); len(found) != n {
		s.Fatalf("%d letters are kept, want %d: %+v", len(found), n, found)
	}
	return s.letters()
}

func (s *stand) replay(id int64, to govern.Target) {
	s.Helper()
	out, err := s.db.Governance().Replay(context.Background(), govern.Act{By: "ann", Reason: "stocked"}, govern.ReplayOptions{To: to}, id)
	if err != nil || out[0].Result != "done" {
		s.Fatalf("Replay: %+v, %v", out, err)
	}
}

func (s *stand) state(i int, want string) {
	s.Helper()
	s.until("the letter is "+want, func() bool { return s.letters()[i].State == want })
}

func TestADeadLetterIsBroughtInReplayedAndKnownWhenItDiesAgain(t *testing.T) {
	s := newStand(t, &bridgetest.Memory{})
	b, end := s.run(s.db.Bridge(), bridge.Config{})
	s.die("1")
	first := s.kept(1)[0]
	if first.Group != "stock" || first.Reason != "E: no stock" || !first.Foreign || first.EventID != "1" {
		t.Fatalf("kept is %+v", first)
	}
	s.replay(first.ID, "")
	s.state(0, govern.StateReplayed)
	s.giveUp()
	found := s.kept(2)
	second, err := s.db.Governance().DeadLetter(t.Context(), found[1].ID)
	if err != nil || second.Bridged.Before != first.ID || second.State != govern.StateOpen {
		t.Fatalf("the second letter is %+v, %v; want it to name %d", second.Bridged, err, first.ID)
	}
	s.replay(second.ID, govern.ToOrigin)
	s.state(1, govern.StateReplayed)
	for range 2 { // as it was published, and as it came back
		if _, ok := s.m.ReceiveOther(); !ok {
			t.Error("a replay to the origin does not reach the other group")
		}
	}
	end()
	if stats := b.Stats(); stats.Kept != 2 || stats.Returned != 2 || stats.Leading {
		t.Errorf("the figures are %+v", stats)
	}
}

func TestAnAcknowledgementThatIsLostLeavesOneLetter(t *testing.T) {
	s := newStand(t, &bridgetest.Memory{LoseAcks: 3})
	b, _ := s.run(s.db.Bridge(), bridge.Config{})
	s.die("1")
	s.kept(1)
	if stats := b.Stats(); stats.Again == 0 {
		t.Errorf("the figures are %+v; want letters that came again", stats)
	}
}

// A source that acknowledges early loses what this store can't keep: the test
// above would not know one from the other.
func TestASourceThatAcknowledgesEarlyIsFoundOut(t *testing.T) {
	s := newStand(t, &bridgetest.Memory{AckEarly: true})
	away := &faulty{Store: s.db.Bridge()}
	away.keep.Store(true)
	b, _ := s.run(away, bridge.Config{})
	s.die("1")
	s.until("the store has refused", func() bool { return b.Stats().Trouble == bridge.TroubleStore })
	away.keep.Store(false)
	s.until("the letter is gone", func() bool { return s.m.Lying() == 0 })
	if n := len(s.letters()); n != 0 {
		t.Errorf("%d letters are kept of what was lost", n)
	}
}

var errAway = errors.New("the store is away")

// faulty is a store of which some calls fail while it is said so.
type faulty struct {
	bridge.Store
	lead, keep, mark atomic.Bool
}

func (f *faulty) Lead(ctx context.Context, group, owner string, ttl time.Duration) (bridge.Lease, error) {
	if f.lead.Load() {
		return bridge.Lease{}, errAway
	}
	return f.Store.Lead(ctx, group, owner, ttl)
}

func (f *faulty) Keep(ctx context.Context, l bridge.Lease, letters []bridge.Letter) (int, error) {
	if f.keep.Load() {
		return 0, errAway
	}
	return f.Store.Keep(ctx, l, letters)
}

func (f *faulty) Mark(ctx context.Context, l bridge.Lease, marks []bridge.Mark) error {
	if f.mark.Load() {
		return errAway
	}
	return f.Store.Mark(ctx, l, marks)
}

func (f *faulty) Resign(ctx context.Context, l bridge.Lease) error {
	if f.mark.Load() { // its process is gone
		return errAway
	}
	return f.Store.Resign(ctx, l)
}

func TestWhatCanNotBeKeptIsNotAcknowledged(t *testing.T) {
	s := newStand(t, &bridgetest.Memory{})
	away := &faulty{Store: s.db.Bridge()}
	away.keep.Store(true)
	b, _ := s.run(away, bridge.Config{})
	s.die("1")
	s.until("the store has refused", func() bool { return b.Stats().Trouble == bridge.TroubleStore })
	if s.m.Lying() != 1 || len(s.letters()) != 0 {
		t.Fatalf("%d lie at the broker, %d are kept", s.m.Lying(), len(s.letters()))
	}
	away.keep.Store(false)
	s.kept(1)
	s.until("nothing is wrong any more", func() bool { return b.Stats().Trouble == "" })
}

// The process dies between the broker's taking of a replay and the record of it:
// the next one sends the same id again, to the end.
func TestAReplayThatWasNotRecordedGoesAgainUnderTheSameID(t *testing.T) {
	var mu sync.Mutex
	var ids []string
	m := &bridgetest.Memory{ReturnFails: func(r bridge.Return) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, r.ID)
		return true, nil
	}}
	s := newStand(t, m)
	dying := &faulty{Store: s.db.Bridge()}
	_, end := s.run(dying, bridge.Config{LeaseTTL: 300 * time.Millisecond})
	s.die("1")
	s.kept(1)
	dying.mark.Store(true)
	s.replay(s.letters()[0].ID, "")
	s.until("it went back", func() bool { mu.Lock(); defer mu.Unlock(); return len(ids) > 0 })
	end()
	if state := s.letters()[0].State; state != govern.StateReplaying {
		t.Fatalf("the letter is %s", state)
	}
	s.run(s.open().Bridge(), bridge.Config{LeaseTTL: 300 * time.Millisecond})
	s.state(0, govern.StateReplayed)
	mu.Lock()
	defer mu.Unlock()
	if len(ids) != 2 || ids[0] != ids[1] {
		t.Errorf("it went back as %v", ids)
	}
}

func TestABrokerThatNeverAnswersOpensTheLetterAgainAndSaysWhy(t *testing.T) {
	tries := atomic.Int64{}
	m := &bridgetest.Memory{ReturnFails: func(bridge.Return) (bool, error) {
		tries.Add(1)
		return true, errors.New("no answer")
	}}
	s := newStand(t, m)
	b, _ := s.run(s.db.Bridge(), bridge.Config{Retry: settle.Backoff{Base: time.Millisecond, Max: time.Millisecond, Attempts: 3}})
	s.die("1")
	id := s.kept(1)[0].ID
	s.replay(id, "")
	s.state(0, govern.StateOpen)
	s.until("it is counted", func() bool { return b.Stats().GivenUp == 1 })
	d, err := s.db.Governance().DeadLetter(t.Context(), id)
	if err != nil || d.Bridged.Refused == "" || tries.Load() != 3 {
		t.Errorf("after %d tries it is %+v, %v", tries.Load(), d.Bridged, err)
	}
}

func TestOfTwoBridgesOneLeadsAndTheOtherTakesOver(t *testing.T) {
	s := newStand(t, &bridgetest.Memory{LoseAcks: 20})
	one, endOne := s.run(s.db.Bridge(), bridge.Config{LeaseTTL: 2 * time.Second})
	s.until("one leads", func() bool { return one.Stats().Leading })
	two, _ := s.run(s.open().Bridge(), bridge.Config{LeaseTTL: 2 * time.Second})
	for _, id := range []string{"1", "2", "3"} {
		s.die(id)
	}
	s.kept(3)
	if two.Stats().Kept != 0 || two.Stats().Leading {
		t.Errorf("the one that stands by has %+v", two.Stats())
	}
	endOne()
	s.until("the other leads", func() bool { return two.Stats().Leading })
	s.die("4")
	s.kept(4)
}
