package rocketmq_test

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rocketmq"
)

// logged is where a logger writes.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

func onFake(t *testing.T, f *fake, l *logged, timeout time.Duration) *rocketmq.Broker {
	t.Helper()
	b, err := rocketmq.Open(t.Context(), f.url(), rocketmq.Config{Log: slog.New(slog.NewTextHandler(l, nil)), Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, b)
}

// A broker keeps what it keeps for some days, and may lose a part of its log.
func TestAQueueWhoseBeginningIsGoneIsReadFromWhereItBeginsAndThatIsTold(t *testing.T) {
	const moved, again = 21, 20
	var pulls atomic.Int64
	f := newFake(t, func(code int, fields map[string]string) (answer, bool) {
		from, _ := strconv.ParseInt(fields["queueOffset"], 10, 64)
		switch {
		case code != askPull:
			return answer{}, true
		case pulls.Add(1) > 100:
			t.Error("the broker is asked for the same again and again")
			return answer{}, false
		case from < 10:
			return pulled(moved, 10, 30, 10), true
		case from == 10:
			return pulled(0, 10, 30, 12, kept(10, "a"), kept(11, "b")), true
		case from < 20:
			return pulled(again, 10, 30, 20), true
		case from == 20:
			return pulled(0, 10, 30, 21, kept(20, "c")), true
		case from == 21: // within its bounds, and it does not say where to go on
			return pulled(again, 10, 30, 21), true
		}
		return answer{}, false
	})
	var l logged
	b := onFake(t, f, &l, time.Second)
	r := deliverTo(t, b, "readers", "t")
	r.await(t, 3)
	for i, want := range []int64{11, 12, 21} {
		if got := r.records[i]; got.Position != want || got.At != (settle.Coordinates{Topic: "t", Offset: want - 1}) {
			t.Errorf("record %d is at %d, %v; want %d", i, got.Position, got.At, want)
		}
	}
	if n := l.count("were deleted before the group had read on"); n != 1 { // a new group has missed nothing
		t.Errorf("it is told %d times", n)
	}
}

// A broker that hangs costs one time-out, not one for each call, and is told once.
func TestWhatIsForABrokerThatHangsFailsAtOnceUntilItAnswers(t *testing.T) {
	var hangs atomic.Bool
	var sent atomic.Int64
	f := newFake(t, func(code int, _ map[string]string) (answer, bool) {
		if hangs.Load() {
			return answer{}, false
		}
		if code != askSend {
			return answer{}, true
		}
		return answer{fields: map[string]string{"queueOffset": strconv.FormatInt(sent.Add(1)-1, 10)}}, true
	})
	var l logged
	const timeout = 500 * time.Millisecond
	b := onFake(t, f, &l, timeout)
	published(t, b, []settle.Message{event("t", "k", 1)})
	hangs.Store(true)
	got := b.Publish(t.Context(), []settle.Message{event("t", "k", 2), event("t", "k", 3)})
	for _, r := range got {
		if settle.ScopeOf(r.Err) != settle.ScopeBroker || r.Err == nil {
			t.Errorf("while it hangs: %v", r.Err)
		}
	}
	for range 3 {
		if r := b.Publish(t.Context(), []settle.Message{event("t", "k", 2)})[0]; r.Err == nil || !strings.Contains(r.Err.Error(), "is asked until it does") {
			t.Errorf("while it is asked: %v", r.Err)
		}
	}
	hangs.Store(false)
	publishedInTime(t, b, []settle.Message{event("t", "k", 2)})
	if away, back := l.count("a broker does not answer"), l.count("a broker answers again"); away != 1 || back != 1 {
		t.Errorf("it is told %d times that it is away, %d times that it is back", away, back)
	}
}

// A caller that has no time left says nothing about the broker.
func TestACallerWithoutTimeLeavesTheConnectionToOthers(t *testing.T) {
	release := make(chan struct{})
	f := newFake(t, func(code int, fields map[string]string) (answer, bool) {
		if code == askSend && strings.Contains(fields["i"], "slow") {
			<-release
		}
		return answer{fields: map[string]string{"queueOffset": "0"}}, true
	})
	var l logged
	b := onFake(t, f, &l, patience)
	slow := make(chan settle.Receipt, 1)
	go func() {
		slow <- b.Publish(context.WithoutCancel(t.Context()), []settle.Message{event("t", "slow", 1)})[0]
	}()
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		for _, r := range b.Publish(ctx, []settle.Message{event("t", "hasty", 1)}) {
			_ = r.Err // acknowledged or not
		}
		cancel()
	}
	close(release)
	if r := <-slow; r.Err != nil {
		t.Errorf("what another has sent: %v", r.Err)
	}
	if n := l.count("does not answer"); n > 0 {
		t.Errorf("the broker is told to be away %d times", n)
	}
}

// A broker says of a request of several that one of them is refused, and not which.
func TestOfARequestThatIsRefusedEachEventIsSentByItselfAndOneIsRefused(t *testing.T) {
	const illegal = 13
	var mu sync.Mutex
	var alone []string
	f := newFake(t, func(code int, fields map[string]string) (answer, bool) {
		switch code {
		case askSend + 10: // several
			return answer{code: illegal}, true
		case askSend:
			mu.Lock()
			defer mu.Unlock()
			_, id, _ := strings.Cut(fields["i"], "UNIQ_KEY\x01")
			id, _, _ = strings.Cut(id, "\x02")
			alone = append(alone, id)
			if id == "bad-1" {
				return answer{code: illegal}, true
			}
			return answer{fields: map[string]string{"queueOffset": strconv.Itoa(len(alone))}}, true
		}
		return answer{}, true
	})
	var l logged
	b := onFake(t, f, &l, time.Second)
	batch := []settle.Message{event("t", "a", 1), event("t", "bad", 1), event("t", "a", 2), event("t", "bad", 2), event("t", "b", 1)}
	for i, r := range b.Publish(t.Context(), batch) {
		switch id := batch[i].ID; {
		case id == "bad-1" && !settle.IsPermanent(r.Err):
			t.Errorf("the one that is refused: %v", r.Err)
		case id == "bad-2" && (r.Err == nil || settle.IsPermanent(r.Err) || settle.ScopeOf(r.Err) != settle.ScopeRecord):
			t.Errorf("the one behind it: %v", r.Err)
		case !strings.HasPrefix(id, "bad") && r.Err != nil:
			t.Errorf("event %s: %v", id, r.Err)
		}
	}
	if got := strings.Join(alone, " "); got != "a-1 bad-1 a-2 b-1" {
		t.Errorf("they were sent by themselves as %s", got)
	}
}
