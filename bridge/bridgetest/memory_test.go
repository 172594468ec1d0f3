package bridgetest

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
)

func harness(m *Memory) Harness {
	return Harness{
		Broker: m.Connect(), Again: func(testing.TB) bridge.Broker { return m.Connect() },
		Ladder: bridge.Ladder{Topic: "orders", Group: "stock"},
		Publish: func(_ testing.TB, key string, value []byte, headers map[string]string) {
			m.Publish(key, value, headers)
		},
		GiveUp: func(t testing.TB, f Failure) {
			if err := m.GiveUp(f); err != nil {
				t.Fatal(err)
			}
		},
		Receive:      func(testing.TB) (settle.Record, bool) { return m.Receive() },
		ReceiveOther: func(testing.TB) (settle.Record, bool) { return m.ReceiveOther() },
		Missing:      bridge.Group{Name: "stock", Dead: []string{"nowhere"}},
		Patience:     time.Second,
	}
}

func TestTheBrokerInMemoryKeepsTheContract(t *testing.T) {
	Run(t, func(t testing.TB) Harness { return harness(&Memory{}) })
}

// recorder takes a failure as a result.
type recorder struct {
	testing.TB
	failed bool
	end    []func()
}

func (r *recorder) Helper()               {}
func (r *recorder) Cleanup(f func())      { r.end = append(r.end, f) }
func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Error(...any)          { r.failed = true }
func (r *recorder) Fatal(...any)          { r.failed = true; runtime.Goexit() }
func (r *recorder) Fatalf(string, ...any) { r.failed = true; runtime.Goexit() }
func (r *recorder) Skipf(string, ...any)  { runtime.Goexit() }
func (r *recorder) run(c testCase, h Harness) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, f := range r.end {
				f()
			}
		}()
		c.run(newBench(r, h))
	}()
	<-done
	return r.failed
}

func TestTheSuiteFindsABrokerThatBreaksTheContract(t *testing.T) {
	planted := map[string]struct {
		m  *Memory
		by string
	}{
		"acknowledges before the sink has kept it": {m: &Memory{AckEarly: true}, by: "was in hand"},
		"acknowledges what the sink has refused":   {m: &Memory{AckEarly: true}, by: "sink refused"},
		"gives another identity each time":         {m: &Memory{Forget: true}, by: "was in hand"},
		"takes a return and forgets it":            {m: &Memory{LoseReturns: true}, by: "back to its group"},
	}
	for name, p := range planted {
		t.Run(name, func(t *testing.T) {
			for _, c := range cases() {
				if strings.Contains(c.name, p.by) {
					if !(&recorder{TB: t}).run(c, harness(p.m)) {
						t.Errorf("%q passes", c.name)
					}
					return
				}
			}
			t.Fatalf("there is no case of %q", p.by)
		})
	}
}
