package concurrent

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

// LaneStore is the log of an outbox that several relays may read.
type LaneStore interface {
	relay.Store
	relay.Lanes
}

// mortal is a store whose process can be killed: from then on nothing that it
// asks reaches the database.
type mortal struct {
	LaneStore
	dead *atomic.Bool
}

// belled is a mortal store that is woken.
type belled struct {
	mortal
	relay.Doorbell
}

func newMortal(s LaneStore, dead *atomic.Bool) relay.Store {
	m := mortal{s, dead}
	if bell, ok := s.(relay.Doorbell); ok {
		return belled{m, bell}
	}
	return m
}

var errKilled = errors.New("the process was killed")

func (m mortal) Lead(ctx context.Context, owner string, lane int, ttl time.Duration) (relay.Lease, error) {
	if m.dead.Load() {
		return relay.Lease{}, errKilled
	}
	return m.LaneStore.Lead(ctx, owner, lane, ttl)
}

func (m mortal) Load(ctx context.Context, l relay.Lease) (relay.State, error) {
	if m.dead.Load() {
		return relay.State{}, errKilled
	}
	return m.LaneStore.Load(ctx, l)
}

func (m mortal) Commit(ctx context.Context, l relay.Lease, f relay.Flush) error {
	if m.dead.Load() {
		return errKilled
	}
	return m.LaneStore.Commit(ctx, l, f)
}

func (m mortal) Resign(ctx context.Context, l relay.Lease) error {
	if m.dead.Load() {
		return errKilled
	}
	return m.LaneStore.Resign(ctx, l)
}

func (m mortal) Poll(ctx context.Context, q relay.PollQuery) (relay.Page, error) {
	if m.dead.Load() {
		return relay.Page{}, errKilled
	}
	return m.LaneStore.Poll(ctx, q)
}

// Crews are three processes' worth of relays on one outbox.
type Crews struct {
	// Broker has what they send.
	Broker *memory.Broker

	t     *testing.T
	all   []*relay.Crew
	dead  []*atomic.Bool
	stops []context.CancelFunc
	group sync.WaitGroup
}

// RunCrews runs three crews, each on a log of its own process, until the test
// ends.
func RunCrews(t *testing.T, process func() func() LaneStore) *Crews {
	c := &Crews{t: t, Broker: memory.New(memory.Config{})}
	for i := range 3 {
		logs, dead := process(), &atomic.Bool{}
		crew := relay.NewCrew(func() relay.Store { return newMortal(logs(), dead) }, c.Broker, relay.Config{
			Owner: fmt.Sprint("process-", i), Logger: slog.New(slog.DiscardHandler), LeaseTTL: 2 * time.Second, HoleAge: 200 * time.Millisecond, SweepEvery: time.Second, KeepFor: time.Hour,
		})
		ctx, stop := context.WithCancel(context.Background())
		c.all, c.dead, c.stops = append(c.all, crew), append(c.dead, dead), append(c.stops, stop)
		c.group.Go(func() {
			if err := crew.Run(ctx); err != nil && !dead.Load() {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	t.Cleanup(func() {
		for _, stop := range c.stops {
			stop()
		}
		c.group.Wait()
		_ = c.Broker.Close()
	})
	return c
}

// Leading returns who leads each lane of the newest generation, once all of them
// are led.
func (c *Crews) Leading(g govern.Divider, lanes int) []govern.LaneStanding {
	c.t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		all, err := g.LaneStandings(c.t.Context())
		if err != nil {
			c.t.Fatal(err)
		}
		led := 0
		for _, l := range all {
			if l.Led && l.Of == lanes && l.Begun {
				led++
			}
		}
		if led == lanes && len(all) == lanes {
			return all
		}
		if time.Now().After(until) {
			c.t.Fatalf("after a minute the lanes stand so, want %d that are led: %+v", lanes, all)
		}
	}
}

func (c *Crews) arrived(want map[string]int64) (wrong []string, sent int) {
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		log := c.Broker.Log(settle.DefaultTopic)
		if wrong = Misplaced(log, want); len(wrong) == 0 || time.Now().After(until) {
			return wrong, len(log)
		}
	}
}

// spread waits until no process leads more than most of the lanes.
func (c *Crews) spread(g govern.Divider, lanes, most int) {
	c.t.Helper()
	for until := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		led := map[string]int{}
		for _, l := range c.Leading(g, lanes) {
			led[l.Owner]++
		}
		top := 0
		for _, n := range led {
			top = max(top, n)
		}
		if top <= most {
			return
		}
		if time.Now().After(until) {
			c.t.Fatalf("after three minutes %d lanes are led so: %v", lanes, led)
		}
	}
}

// LanesSpread checks that lanes spread over the processes that there are, and
// are taken over from one that ends. process opens one more on the outbox of g,
// and returns what makes its logs.
func LanesSpread(t *testing.T, g govern.Divider, process func() func() LaneStore) {
	Divide(t, g, 6)
	c := RunCrews(t, process)
	c.spread(g, 6, 2)
	c.stops[0]() // it gives its lanes back
	c.spread(g, 6, 3)
}

var person = govern.Act{By: "a person", Reason: "a test"}

// LanesChange changes the number of lanes of an outbox twice while many write to
// it, and kills a leader at the barrier of the second change. The keys stay in
// order, and all is sent.
func LanesChange[Tx any](t *testing.T, o Outbox[Tx], g govern.Divider, during time.Duration, process func() func() LaneStore) {
	c := RunCrews(t, process)
	var group sync.WaitGroup
	group.Go(func() {
		c.Leading(g, 1)
		time.Sleep(500 * time.Millisecond)
		Divide(t, g, 4)
		four := c.Leading(g, 4)
		time.Sleep(500 * time.Millisecond)
		for i := range c.all {
			if fmt.Sprint("process-", i) == four[0].Owner {
				c.dead[i].Store(true) // what it has read and sent is not committed any more
			}
		}
		Divide(t, g, 2)
		for _, l := range c.Leading(g, 2) {
			if l.Owner == four[0].Owner {
				t.Errorf("%+v is led by a dead process", l)
			}
		}
	})
	want := Write(t, o, Load{Writers: 16, Keys: 50, During: during})
	group.Wait()
	wrong, sent := c.arrived(want)
	for _, w := range wrong {
		t.Error(w)
	}
	total := int64(0)
	for _, n := range want {
		total += n
	}
	if t.Logf("%d events, %d copies", total, sent); total < 100 {
		t.Error("too few to say anything")
	}
	wantAllSent(t, o.Reader)
}

// Divide orders a number of lanes, which is another than there are.
func Divide(t *testing.T, g govern.Divider, lanes int) {
	t.Helper()
	if d, err := g.Divide(context.Background(), person, lanes); err != nil || !d.Ordered || d.Lanes != lanes {
		t.Errorf("%+v, %v; want %d lanes", d, err, lanes)
	}
}

// wantAllSent waits until every event is shown as sent.
func wantAllSent(t *testing.T, reader *sql.DB) {
	t.Helper()
	for until := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var n int
		if err := reader.QueryRowContext(t.Context(), "SELECT count(*) FROM v_outbox_event WHERE status <> 'SENT'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
		if time.Now().After(until) {
			var id int64
			var status string
			err := reader.QueryRowContext(t.Context(), "SELECT id, status FROM v_outbox_event WHERE status <> 'SENT' ORDER BY id LIMIT 1").Scan(&id, &status)
			t.Fatalf("%d events are not shown as sent, of them %d as %s, %v", n, id, status, err)
		}
	}
}
