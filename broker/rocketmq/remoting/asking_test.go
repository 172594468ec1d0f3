package remoting_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

func TestRequestsOfOneConnectionAreAnsweredInAnyOrder(t *testing.T) {
	const n = 8
	var mu sync.Mutex
	var held []asked
	f := serve(t, func(to net.Conn, r asked) {
		mu.Lock()
		defer mu.Unlock()
		if held = append(held, r); len(held) < n {
			return
		}
		for i := n - 1; i >= 0; i-- {
			_, _ = to.Write(reply(held[i], 0, "", map[string]string{"offset": held[i].Fields["queueId"]}, nil))
		}
	})
	c := newClient(t, remoting.Config{})
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			if got, err := c.MaxOffset(t.Context(), f.addr, "t", i); err != nil || got != int64(i) {
				t.Errorf("queue %d ends at %d, %v", i, got, err)
			}
		})
	}
	calls.Wait()
	if len(f.conns) != 1 {
		t.Errorf("%d connections were made", len(f.conns))
	}
}

func TestWhatIsNoFrameEndsTheConnectionAndTheNextRequestHasANewOne(t *testing.T) {
	deep := `{"code":0,"flag":1,"opaque":1,"extFields":` + strings.Repeat("[", 100) + "}"
	for name, bad := range map[string][]byte{
		"a length of almost 2 GiB":        binary.BigEndian.AppendUint32(nil, 0x7fffffff),
		"a negative length":               binary.BigEndian.AppendUint32(nil, 0xffffffff),
		"no room for a header's length":   {0, 0, 0, 1, 0},
		"a header longer than the frame":  {0, 0, 0, 8, 0, 0, 0, 200, 1, 2, 3, 4},
		"a header of another kind":        {0, 0, 0, 8, 1, 0, 0, 4, 1, 2, 3, 4},
		"a header that is no JSON":        frame("GET / HTTP/1.1", nil),
		"a header that is nested wrongly": frame(deep, nil),
	} {
		t.Run(name, func(t *testing.T) {
			var once sync.Once
			f := serve(t, func(to net.Conn, r asked) {
				spoilt := false
				once.Do(func() {
					spoilt = true
					_, _ = to.Write(bad)
				})
				if !spoilt {
					_, _ = to.Write(reply(r, 0, "", map[string]string{"offset": "7"}, nil))
				}
			})
			c := newClient(t, remoting.Config{})
			_, err := c.MaxOffset(t.Context(), f.addr, "t", 0)
			var not *remoting.NotSentError
			if err == nil || errors.As(err, &not) || !strings.Contains(err.Error(), f.addr) {
				t.Errorf("it says %v", err)
			}
			if got, err := c.MaxOffset(t.Context(), f.addr, "t", 0); err != nil || got != 7 {
				t.Errorf("the next one answers %d, %v", got, err)
			}
		})
	}
}

func TestAnAnswerToNoRequestIsPassedOver(t *testing.T) {
	f := serve(t, func(to net.Conn, r asked) {
		other := r
		other.Opaque += 1000
		_, _ = to.Write(reply(other, 0, "", map[string]string{"offset": "1"}, nil))
		_, _ = to.Write(frame(fmt.Sprintf(`{"code":40,"flag":0,"opaque":%d}`, r.Opaque), nil)) // a request of the server's own
		_, _ = to.Write(reply(r, 0, "", map[string]string{"offset": "2"}, nil))
	})
	c := newClient(t, remoting.Config{})
	if got, err := c.MaxOffset(t.Context(), f.addr, "t", 0); err != nil || got != 2 {
		t.Errorf("it takes %d, %v", got, err)
	}
}

func TestWhoGivesUpDisturbsNobodyElse(t *testing.T) {
	came := make(chan asked, 2)
	var mu sync.Mutex
	var late net.Conn
	f := serve(t, func(to net.Conn, r asked) {
		mu.Lock()
		late = to
		mu.Unlock()
		came <- r
	})
	c := newClient(t, remoting.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { _, err := c.MaxOffset(ctx, f.addr, "t", 0); gone <- err }()
	first := <-came
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("it says %v", err)
	}
	type result struct {
		n   int64
		err error
	}
	stays := make(chan result, 1)
	go func() { n, err := c.MaxOffset(t.Context(), f.addr, "t", 1); stays <- result{n, err} }()
	second := <-came
	mu.Lock()
	_, _ = late.Write(reply(first, 0, "", map[string]string{"offset": "1"}, nil))
	_, _ = late.Write(reply(second, 0, "", map[string]string{"offset": "2"}, nil))
	mu.Unlock()
	if r := <-stays; r.err != nil || r.n != 2 {
		t.Errorf("the other one has %d, %v", r.n, r.err)
	}
}

func TestAServerThatSaysNothingIsGivenUpInTime(t *testing.T) {
	f := serve(t, func(net.Conn, asked) {})
	c := newClient(t, remoting.Config{Timeout: 20 * time.Millisecond})
	_, err := c.Settings(t.Context(), f.addr)
	var not *remoting.NotSentError
	if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &not) {
		t.Errorf("it says %v", err)
	}
}

func TestAConnectionThatEndsFailsAtOnceWhatWaitsOnIt(t *testing.T) {
	f := serve(t, func(to net.Conn, _ asked) { _ = to.Close() })
	c := newClient(t, remoting.Config{Timeout: 10 * time.Minute})
	if _, err := c.Settings(t.Context(), f.addr); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it says %v", err)
	}
}

func TestWhatWasNotSentIsSaidToBe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, remoting.Config{})
	var not *remoting.NotSentError
	if _, err := c.Settings(t.Context(), addr); !errors.As(err, &not) {
		t.Errorf("of a port where nobody listens it says %v", err)
	}
	c.Close()
	if _, err := c.Settings(t.Context(), addr); !errors.As(err, &not) || !errors.Is(err, remoting.ErrClosed) {
		t.Errorf("after Close it says %v", err)
	}
}

func TestCloseEndsCallsInFlight(t *testing.T) {
	came := make(chan asked, 1)
	f := serve(t, func(_ net.Conn, r asked) { came <- r })
	c := newClient(t, remoting.Config{})
	failed := make(chan error, 1)
	go func() { _, err := c.Settings(context.Background(), f.addr); failed <- err }()
	<-came
	c.Close()
	if err := <-failed; err == nil {
		t.Error("a call outlives Close")
	}
}

func TestARefusalTellsItsCodeAndTheFirstLineOfItsRemark(t *testing.T) {
	f := serve(t, func(to net.Conn, r asked) {
		_, _ = to.Write(reply(r, 1, "java.lang.NullPointerException: no group\n at org.apache.Broker\n at java.base", nil, nil))
	})
	c := newClient(t, remoting.Config{})
	_, err := c.TopicAt(t.Context(), f.addr, "t")
	var r *remoting.Refusal
	if !errors.As(err, &r) || r.Code != 1 || r.Request != 351 || r.Server != f.addr || !remoting.IsRefusal(err, 17, 1) || remoting.IsRefusal(err, 17) {
		t.Fatalf("it says %+v", err)
	}
	if want := "RocketMQ at " + f.addr + " refuses request 351 with code 1: java.lang.NullPointerException: no group"; err.Error() != want {
		t.Errorf("it reads\n%s, want\n%s", err, want)
	}
	long := &remoting.Refusal{Remark: strings.Repeat("ä", 1000)}
	if text := long.Error(); len(text) > 400 || !strings.HasSuffix(text, "ä…") {
		t.Errorf("of a long remark it says %q", text)
	}
}

func TestRequestsAreSignedAsTheBrokerReckons(t *testing.T) {
	came := make(chan asked, 1)
	f := serve(t, func(to net.Conn, r asked) {
		came <- r
		_, _ = to.Write(reply(r, 0, "", nil, nil))
	})
	c := newClient(t, remoting.Config{AccessKey: "relay", SecretKey: "12345678"})
	if err := c.SetSettings(t.Context(), f.addr, map[string]string{"a": "b"}); err != nil {
		t.Fatal(err)
	}
	got := <-came
	mac := hmac.New(sha1.New, []byte("12345678"))
	mac.Write([]byte("relay" + "a=b\n")) // AccessKey is the only field
	if got.Fields["AccessKey"] != "relay" || got.Fields["Signature"] != base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
		t.Errorf("it was sent with %v", got.Fields)
	}
	if err := c.DeleteTopic(t.Context(), f.addr, "orders"); err != nil {
		t.Fatal(err)
	}
	got = <-came
	mac = hmac.New(sha1.New, []byte("12345678"))
	mac.Write([]byte("relay" + "orders"))
	if got.Fields["Signature"] != base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
		t.Errorf("it was sent with %v", got.Fields)
	}
}
