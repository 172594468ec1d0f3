package outside

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

func always() float64 { return 0 }

// modes returns which mode meets each customer, "" for none.
func modes(c *conduct, now time.Time, customers ...string) string {
	var all []string
	for _, name := range customers {
		r, _ := c.meet(now, name, always)
		all = append(all, r.Mode)
	}
	return strings.Join(all, ",")
}

func TestTheNewestRuleThatMeetsARequestCounts(t *testing.T) {
	var c conduct
	now := time.Unix(1000, 0)
	for _, step := range []struct {
		tell Misbehaviour
		want string // of customers a, b and one without a name
	}{
		{Misbehaviour{Mode: ModeHang, Customers: []string{"b", "a", "a"}}, "hang,hang,"},
		{Misbehaviour{Mode: ModeFail}, "fail,fail,fail"},
		{Misbehaviour{Mode: ModeSlow, For: time.Second, Customers: []string{"a"}}, "slow,fail,fail"},
		{Misbehaviour{Mode: ModeHang, Customers: []string{"a", "b"}}, "hang,hang,fail"}, // in place of the first one
		{Misbehaviour{Mode: ModeOK, Customers: []string{"b"}}, "hang,fail,fail"},
		{Misbehaviour{Mode: ModeOK}, ",,"},
	} {
		c.set(now, step.tell)
		if got := modes(&c, now, "a", "b", ""); got != step.want {
			t.Errorf("after %+v: %s; want %s", step.tell, got, step.want)
		}
	}
}

func TestARuleEndsByItself(t *testing.T) {
	var c conduct
	now := time.Unix(1000, 0)
	c.set(now, Misbehaviour{Mode: ModeAway, For: time.Second})
	r, _ := c.meet(now, "", always)
	last := now.Add(time.Second - 1)
	if !c.holds(last, r.id, "") || modes(&c, last, "a") != ModeAway {
		t.Error("it ended too early")
	}
	if c.holds(now.Add(time.Second), r.id, "") || modes(&c, now.Add(time.Second), "a") != "" {
		t.Error("it did not end")
	}
}

func TestAShareMeetsSomeRequests(t *testing.T) {
	var c conduct
	now := time.Unix(1000, 0)
	c.set(now, Misbehaviour{Mode: ModeFail, Share: 0.25})
	for chance, want := range map[float64]bool{0: true, 0.24: true, 0.25: false, 0.99: false} {
		if _, met := c.meet(now, "", func() float64 { return chance }); met != want {
			t.Errorf("chance %v: met is %v", chance, met)
		}
	}
}

func TestAMisbehaviourIsReadStrictly(t *testing.T) {
	s := start(t, Config{System: CouponSystem})
	for _, c := range []struct {
		body   string
		status int
		says   string
	}{
		{`{"mode":"slow","share":0.5,"delay":"10ms","for":"1h","customers":["c-2","c-1"]}`, 200, `"customers":["c-1","c-2"]`},
		{`{"mode":"late"}`, 422, "ok, slow, fail, hang, lost, garbage, away"},
		{`{}`, 422, "unknown mode"},
		{`null`, 422, "unknown mode"},
		{`{"mode":"fail","shar":1}`, 400, "shar"},
		{`{"mode":"fail","share":1.5}`, 422, "at most 1"},
		{`{"mode":"fail","share":-0.5}`, 422, "more than 0"},
		{`{"mode":"slow","delay":"1h"}`, 422, "delay"},
		{`{"mode":"slow","delay":"soon"}`, 400, "no duration"},
		{`{"mode":"slow","for":"-1s"}`, 422, "for is"},
		{`{"mode":"fail","customers":["a b"]}`, 422, "customers"},
		{`[`, 400, "can't be read"},
	} {
		if status, body := s.post(t, "/misbehave", "", c.body); status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %s; want %d saying %s", c.body, status, body, c.status, c.says)
		}
	}
	rules := s.standing(t).Rules
	if len(rules) != 1 || rules[0].Mode != ModeSlow || rules[0].Share != 0.5 || rules[0].Delay != 10*time.Millisecond || rules[0].For <= 0 || rules[0].For > time.Hour {
		t.Errorf("standing %+v", rules)
	}
	if err := (Misbehaviour{Mode: ModeFail, Customers: []string{"c"}}).Check(CarrierSystem); err == nil {
		t.Error("the carrier tells customers apart")
	}
}

func TestAMisbehaviourComesBackFromTheWireAsItWas(t *testing.T) {
	want := Misbehaviour{Mode: ModeSlow, Share: 0.5, Delay: time.Second, For: time.Minute, Customers: []string{"c"}}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Misbehaviour
	if err := json.Unmarshal(b, &got); err != nil || got.Mode != want.Mode || got.Delay != want.Delay || got.For != want.For || !slices.Equal(got.Customers, want.Customers) {
		t.Errorf("%s became %+v, %v", b, got, err)
	}
}

func TestOnlyTheNamedCustomersAreMet(t *testing.T) {
	s := start(t, Config{System: CouponSystem})
	c := NewCoupons(patient(s))
	defer c.Close()
	if _, err := c.Grant(t.Context(), "o-1", "c-1", 500); err != nil {
		t.Fatal(err)
	}
	s.tell(t, Misbehaviour{Mode: ModeFail, Customers: []string{"c-1"}})
	if _, err := c.Grant(t.Context(), "o-2", "c-2", 500); err != nil {
		t.Errorf("another customer: %v", err)
	}
	if _, err := c.Grant(t.Context(), "o-3", "c-1", 500); classOf(err) != unknown {
		t.Errorf("the customer: %v", err)
	}
	// A revocation names no customer; its order has one.
	if err := c.Revoke(t.Context(), "o-1"); classOf(err) != unknown {
		t.Errorf("the customer's order: %v", err)
	}
	if err := c.Revoke(t.Context(), "o-2"); err != nil {
		t.Errorf("another customer's order: %v", err)
	}
	s.tell(t, Misbehaviour{Mode: ModeOK, Customers: []string{"c-1"}})
	if err := c.Revoke(t.Context(), "o-1"); err != nil {
		t.Errorf("once it behaves: %v", err)
	}
	if n := s.standing(t).Misbehaved[ModeFail]; n != 2 {
		t.Errorf("misbehaved %d times", n)
	}
}

func TestAHangEndsWithItsMode(t *testing.T) {
	s := start(t, Config{System: CarrierSystem})
	cfg := patient(s)
	cfg.Timeout = 20 * time.Second
	c := NewCarrier(cfg)
	defer c.Close()
	for wait := 50 * time.Millisecond; ; wait *= 2 { // a slow machine may be too late for it
		s.tell(t, Misbehaviour{Mode: ModeHang, For: wait})
		err := c.Cancel(t.Context(), "o-"+wait.String())
		if classOf(err) == unavailable {
			break
		}
		if err != nil || wait > 10*time.Second {
			t.Fatalf("one that ends by itself: %v is %s", err, classOf(err))
		}
	}
	before := s.standing(t).Misbehaved[ModeHang]
	s.tell(t, Misbehaviour{Mode: ModeHang})
	ended := make(chan error, 1)
	go func() { ended <- c.Cancel(t.Context(), "o-7") }()
	for deadline := time.Now().Add(10 * time.Second); s.standing(t).Misbehaved[ModeHang] == before; {
		if time.Now().After(deadline) {
			t.Fatal("nobody hangs")
		}
	}
	s.tell(t, Misbehaviour{Mode: ModeOK})
	if err := <-ended; classOf(err) != unavailable {
		t.Errorf("one that was ended: %v is %s", err, classOf(err))
	}
	if slices.Contains(s.rows(t), "cancellation o-7 - 0 cancellation:o-7") {
		t.Error("the work was done")
	}
}
