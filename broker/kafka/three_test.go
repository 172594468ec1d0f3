package kafka_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/kafka"
)

// three is a cluster of the test's own.
type three struct {
	t   testing.TB
	env []string
	at  string
}

func threeForTest(t testing.TB) *three {
	t.Helper()
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("runs with SETTLE_TEST_ALL=1: it starts three servers")
	}
	c := &three{t: t, env: append(os.Environ(), "SETTLE_SERVICES_DIR="+t.TempDir(), fmt.Sprint("SETTLE_KAFKA3_PORT=", nineFreePorts(t)))}
	t.Cleanup(func() { c.run("down") })
	_, c.at, _ = strings.Cut(strings.TrimSpace(c.run("up", "kafka3")), " ")
	return c
}

func nineFreePorts(t testing.TB) int {
	t.Helper()
	for base := 20_000; base < 30_000; base += 9 {
		free := true
		for port := base; port < base+9 && free; port++ {
			l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
			if free = err == nil; free {
				_ = l.Close()
			}
		}
		if free {
			return base
		}
	}
	t.Fatal("nine ports in a row are nowhere free")
	return 0
}

func (c *three) run(args ...string) string {
	c.t.Helper()
	cmd := exec.Command(filepath.Join("..", "..", "scripts", "services"), args...)
	cmd.Env = c.env
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		c.t.Errorf("scripts/services %v: %v\n%s", args, err, said.String())
	}
	return string(out)
}

// leader names the service that leads partition 0 of the topic.
func (r *rig) leader(t testing.TB) string {
	t.Helper()
	node := int32(-1)
	await(t, "partition 0 to have a leader", func() bool {
		topics, err := r.admin.ListTopics(t.Context(), r.topic)
		if err == nil && topics[r.topic].Err == nil {
			node = topics[r.topic].Partitions[0].Leader
		}
		return node > 0
	})
	return fmt.Sprint("kafka3-", node)
}

// load publishes events of some keys until it is ended, as a relay does: what
// failed is sent again, in order. It keeps what was acknowledged.
type load struct {
	mu      sync.Mutex
	acked   map[string]bool
	again   int
	longest time.Duration

	stop  atomic.Bool
	group sync.WaitGroup
}

func (r *rig) load(t testing.TB, b settle.Publisher, publishers int) *load {
	l := &load{acked: map[string]bool{}}
	for p := range publishers {
		l.group.Go(func() {
			last := time.Now()
			for seq := int64(1); !l.stop.Load(); seq++ {
				var left []settle.Message
				for k := range 10 {
					left = append(left, r.messageOf(fmt.Sprintf("p%d-k%d", p, k), seq, 0))
				}
				for len(left) > 0 {
					left = l.publish(b, left)
				}
				l.mu.Lock()
				l.longest = max(l.longest, time.Since(last))
				l.mu.Unlock()
				last = time.Now()
				time.Sleep(5 * time.Millisecond) // the rate of the load
			}
		})
	}
	t.Cleanup(func() { l.stop.Store(true); l.group.Wait() })
	return l
}

func (l *load) publish(b settle.Publisher, batch []settle.Message) (left []settle.Message) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	receipts := b.Publish(ctx, batch)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, receipt := range receipts {
		if receipt.Err != nil {
			left = append(left, batch[i])
			continue
		}
		l.acked[batch[i].Event.ID] = true
	}
	l.again += len(left)
	return left
}

func (l *load) end() (acked int) {
	l.stop.Store(true)
	l.group.Wait()
	return len(l.acked)
}

// check reads the log: what was acknowledged is there, and first copies are in
// order.
func (l *load) check(t testing.TB, r *rig) {
	t.Helper()
	acked := l.end()
	stored := map[string]int{}
	for _, rec := range r.log(t) {
		stored[rec.Event.ID]++
	}
	lost, copies := 0, 0
	for id := range l.acked {
		if stored[id] == 0 {
			lost++
		}
	}
	for _, n := range stored {
		copies += n - 1
	}
	r.checkOrder(t)
	t.Logf("%d acknowledged, %d lost, %d sent again, %d second copies, longest pause %s", acked, lost, l.again, copies, l.longest.Round(time.Millisecond))
	if lost > 0 || acked == 0 {
		t.Errorf("of %d acknowledged events %d are lost", acked, lost)
	}
}

func TestThreeNodesThatAreKilledPausedAndRestartedLoseNothing(t *testing.T) {
	c := threeForTest(t)
	killed := func(t *testing.T, r *rig) {
		leader := r.leader(t)
		c.run("kill", leader)
		time.Sleep(8 * time.Second)
		c.run("start", leader)
	}
	const fenced = "leader killed, published in transactions"
	for name, fault := range map[string]func(t *testing.T, r *rig){
		"leader killed": killed,
		fenced:          killed,
		"leader paused": func(t *testing.T, r *rig) {
			leader := r.leader(t)
			c.run("pause", leader)
			time.Sleep(10 * time.Second)
			c.run("resume", leader)
		},
		"all restarted in turn": func(_ *testing.T, _ *rig) {
			for n := range 3 {
				c.run("kill", fmt.Sprint("kafka3-", n+1))
				c.run("start", fmt.Sprint("kafka3-", n+1))
				time.Sleep(3 * time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.at)
			var j journal
			b := openForTest(t, c.at, kafka.Config{Topics: []string{r.topic}, Partitions: 6, Log: j.logger()})
			defer b.Close()
			s := newSink()
			leave := r.join(t, b, "g-"+r.topic, s)
			var pub settle.Publisher = b
			if name == fenced {
				relay := r.lead(t, kafka.Config{ConnectTimeout: patience, Log: j.logger()}, r.topic, 1)
				defer relay.Close()
				pub = relay
			}
			l := r.load(t, pub, 4)
			time.Sleep(2 * time.Second)
			fault(t, r)
			time.Sleep(3 * time.Second)
			l.end()
			await(t, "all to be delivered", func() bool { return distinct(s) >= len(l.acked) })
			leave()
			l.check(t, r)
			t.Logf("%d deliveries of %d events; %d lines of log\n%s", len(s.records()), distinct(s), len(j.lines("")), strings.Join(j.lines(""), ""))
		})
	}
}

func distinct(s *sink) int {
	seen := map[string]bool{}
	for _, rec := range s.records() {
		seen[rec.Event.ID] = true
	}
	return len(seen)
}

// TestInARebalanceStormNothingIsLostAndKeysKeepTheirOrder has ten members join and
// leave for a minute in the long run.
func TestInARebalanceStormNothingIsLostAndKeysKeepTheirOrder(t *testing.T) {
	length, members := 4*time.Second, 4
	if os.Getenv("SETTLE_TEST_ALL") != "" {
		length, members = time.Minute, 10
	}
	r := newRig(t, serverForTest(t))
	b := r.open(t, r.config())
	defer b.Close()
	l := r.load(t, b, 2)
	s := newSink()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var storm sync.WaitGroup
	var joins atomic.Int64
	for m := range members {
		storm.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				member, stop := context.WithTimeout(ctx, time.Duration(500+300*((m+round)%5))*time.Millisecond)
				joins.Add(1)
				if err := b.Subscribe(member, settle.Subscription{Group: "g-" + r.topic, Topics: []string{r.topic}}, s); err != nil {
					t.Errorf("subscribe: %v", err)
				}
				stop()
			}
		})
	}
	storm.Wait()
	l.end()
	leave := r.join(t, b, "g-"+r.topic, s)
	await(t, "all to be delivered", func() bool { return distinct(s) >= len(l.acked) })
	leave()
	l.check(t, r)
	seen, last := map[string]bool{}, map[string]int64{}
	for _, rec := range s.records() {
		if e := rec.Event; !seen[e.ID] {
			seen[e.ID] = true
			if e.AggregateSeq != last[e.AggregateID]+1 {
				t.Fatalf("event %d of %s came behind event %d", e.AggregateSeq, e.AggregateID, last[e.AggregateID])
			}
			last[e.AggregateID]++
		}
	}
	t.Logf("%d joins in %s; %d events, %d delivered again", joins.Load(), length, len(seen), len(s.records())-len(seen))
}
