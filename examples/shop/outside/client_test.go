package outside

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// class is what a client says of a call's outcome.
type class string

const (
	done        class = "done"
	unavailable class = "unavailable"
	permanent   class = "permanent"
	unknown     class = "unknown"
)

func classOf(err error) class {
	switch {
	case err == nil:
		return done
	case settle.IsUnavailable(err):
		return unavailable
	case settle.IsPermanent(err):
		return permanent
	}
	return unknown
}

// patient is a client whose breaker stays closed.
func patient(s *running) ClientConfig {
	return ClientConfig{Address: s.address, Timeout: 20 * time.Second, Failures: 1_000_000, Logger: slog.New(slog.DiscardHandler)}
}

// caller is one effect of one system, as the shop asks for it.
type caller struct {
	system, effect, bar string
	ask, give           func(context.Context) error
	close               func()
}

func callers(cfg func(system string) ClientConfig) []caller {
	p, c, s := NewProvider(cfg(ProviderSystem)), NewCoupons(cfg(CouponSystem)), NewCarrier(cfg(CarrierSystem))
	return []caller{
		{ProviderSystem, KindCapture, KindVoid, func(ctx context.Context) error {
			no, err := p.Capture(ctx, "o-7", "c-1", 990)
			if no != "" {
				return fmt.Errorf("declined: %s", no)
			}
			return err
		}, func(ctx context.Context) error {
			_, err := p.Void(ctx, "o-7")
			return err
		}, p.Close},
		{CouponSystem, KindCoupon, KindRevocation, func(ctx context.Context) error {
			code, err := c.Grant(ctx, "o-7", "c-1", 500)
			if err == nil && !strings.HasPrefix(code, "C-") {
				return fmt.Errorf("code %q", code)
			}
			return err
		}, func(ctx context.Context) error { return c.Revoke(ctx, "o-7") }, c.Close},
		{CarrierSystem, KindShipment, KindCancellation, func(ctx context.Context) error {
			code, err := s.Ship(ctx, "o-7", []Line{{SKU: "s", Quantity: 2}})
			if err == nil && !strings.HasPrefix(code, "T-") {
				return fmt.Errorf("tracking %q", code)
			}
			return err
		}, func(ctx context.Context) error { return s.Cancel(ctx, "o-7") }, s.Close},
	}
}

func kinds(rows []string) []string {
	var all []string
	for _, r := range rows {
		kind, _, _ := strings.Cut(r, " ")
		all = append(all, kind)
	}
	return all
}

func TestEveryModeHasItsClassAndDoesTheWorkOrNot(t *testing.T) {
	for _, mode := range []struct {
		Misbehaviour
		want  class
		works bool
	}{
		{Misbehaviour{Mode: ModeOK}, done, true},
		{Misbehaviour{Mode: ModeSlow, Delay: 20 * time.Millisecond}, done, true},
		{Misbehaviour{Mode: ModeSlow, Delay: 10 * time.Second}, unknown, true},
		{Misbehaviour{Mode: ModeFail}, unknown, false},
		{Misbehaviour{Mode: ModeHang}, unknown, false},
		{Misbehaviour{Mode: ModeLost}, unknown, true},
		{Misbehaviour{Mode: ModeGarbage}, unknown, true},
		{Misbehaviour{Mode: ModeAway}, unavailable, false},
	} {
		servers := map[string]*running{}
		for _, name := range Systems() {
			servers[name] = start(t, Config{System: name})
			servers[name].tell(t, mode.Misbehaviour)
		}
		config := func(name string) ClientConfig {
			cfg := patient(servers[name])
			if mode.Mode == ModeHang || mode.Delay > time.Second {
				cfg.Timeout = 100 * time.Millisecond
			}
			return cfg
		}
		for _, c := range callers(config) {
			t.Run(fmt.Sprintf("%s %s %s", c.system, mode.Mode, mode.Delay), func(t *testing.T) {
				defer c.close()
				s := servers[c.system]
				// Several times: garbage comes in several shapes.
				for range 4 {
					if err := c.ask(t.Context()); classOf(err) != mode.want {
						t.Fatalf("effect: %v is %s; want %s", err, classOf(err), mode.want)
					}
					if mode.want != done && mode.Mode != ModeGarbage {
						break // each takes its time
					}
				}
				want := []string(nil)
				if mode.works {
					want = []string{c.effect}
				}
				got := kinds(s.rows(t))
				for deadline := time.Now().Add(10 * time.Second); mode.works && len(got) == 0 && time.Now().Before(deadline); {
					got = kinds(s.rows(t)) // a client that leaves does not stop the work
				}
				if !slices.Equal(got, want) {
					t.Errorf("ledger %q; want %q", got, want)
				}
				if n := s.standing(t).Misbehaved[mode.Mode]; (n > 0) != (mode.Mode != ModeOK) {
					t.Errorf("misbehaved %d times", n)
				}
				for range 4 {
					if err := c.give(t.Context()); classOf(err) != mode.want {
						t.Errorf("what bars: %v is %s; want %s", err, classOf(err), mode.want)
					}
					if mode.Mode != ModeGarbage {
						break
					}
				}
			})
		}
	}
}

func TestABarredEffectIsPermanentButForThePaymentThatIsDeclined(t *testing.T) {
	servers := map[string]*running{}
	for _, name := range Systems() {
		servers[name] = start(t, Config{System: name})
	}
	for _, c := range callers(func(name string) ClientConfig { return patient(servers[name]) }) {
		defer c.close()
		if err := c.give(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := c.ask(t.Context())
		if c.system == ProviderSystem {
			if err == nil || classOf(err) != unknown || err.Error() != "declined: the order's payment was voided" {
				t.Errorf("%s: %v", c.system, err)
			}
		} else if classOf(err) != permanent {
			t.Errorf("%s: %v is %s", c.system, err, classOf(err))
		}
		if got := kinds(servers[c.system].rows(t)); !slices.Equal(got, []string{c.bar}) {
			t.Errorf("%s: ledger %q", c.system, got)
		}
	}
}

func TestADeclinedPaymentIsNoError(t *testing.T) {
	s := start(t, Config{System: ProviderSystem})
	p := NewProvider(patient(s))
	defer p.Close()
	if no, err := p.Capture(t.Context(), "o-7", "declined-1", 990); err != nil || no != "the card was declined" {
		t.Errorf("%q, %v", no, err)
	}
	if back, err := p.Void(t.Context(), "o-7"); err != nil || back != 0 {
		t.Errorf("%d, %v", back, err)
	}
}

func TestAVoidSaysHowMuchWentBackHoweverOftenItIsAsked(t *testing.T) {
	s := start(t, Config{System: ProviderSystem})
	p := NewProvider(patient(s))
	defer p.Close()
	if _, err := p.Capture(t.Context(), "o-7", "c-1", 990); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if back, err := p.Void(t.Context(), "o-7"); err != nil || back != 990 {
			t.Errorf("%d, %v", back, err)
		}
	}
}

func TestARequestThatIsWrongIsPermanent(t *testing.T) {
	s := start(t, Config{System: ProviderSystem})
	p := NewProvider(patient(s))
	defer p.Close()
	if _, err := p.Capture(t.Context(), "o-7", "c-1", -1); classOf(err) != permanent {
		t.Errorf("a negative amount: %v is %s", err, classOf(err))
	}
	if _, err := p.Capture(t.Context(), "o-7", "c-1", 990); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Capture(t.Context(), "o-7", "c-1", 991); classOf(err) != permanent {
		t.Errorf("another amount under the same key: %v is %s", err, classOf(err))
	}
}

func TestNobodyThereMeansUnavailable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().String()
	_ = l.Close()
	for name, address := range map[string]func() (string, error){
		"refused":      func() (string, error) { return free, nil },
		"not known":    func() (string, error) { return Address(t.TempDir(), ProviderSystem) },
		"no address":   func() (string, error) { return "%zz", nil },
		"unreachable":  func() (string, error) { return "127.0.0.1:0", nil },
		"wrong system": start(t, Config{System: CarrierSystem}).address,
	} {
		p := NewProvider(ClientConfig{Address: address, Logger: slog.New(slog.DiscardHandler)})
		if _, err := p.Void(t.Context(), "o-7"); classOf(err) != unavailable {
			t.Errorf("%s: %v is %s", name, err, classOf(err))
		}
		p.Close()
	}
}

func TestAnAnswerIsNotTrusted(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   class
	}{
		"of another order":  {201, `{"order_id":"o-8","state":"captured"}`, unknown},
		"of another state":  {201, `{"order_id":"o-7","state":"pending"}`, unknown},
		"too long":          {201, `{"order_id":"o-7","state":"captured","x":"` + strings.Repeat("x", maxAnswer) + `"}`, unknown},
		"redirection":       {307, ``, unknown},
		"no content":        {204, ``, unknown},
		"a proxy's refusal": {403, `<html>`, unknown},
		"a stranger's":      {403, `{"error":"who are you?"}`, unknown},
		"a real refusal":    {403, `{"status":403}`, permanent},
		"gateway":           {502, ``, unknown},
		"time-out there":    {408, ``, unknown},
		"too many":          {429, ``, unavailable},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		p := NewProvider(ClientConfig{Address: func() (string, error) { return s.Listener.Addr().String(), nil }, Logger: slog.New(slog.DiscardHandler)})
		if no, err := p.Capture(t.Context(), "o-7", "c-1", 990); no != "" || classOf(err) != c.want {
			t.Errorf("%s: %q, %v is %s; want %s", name, no, err, classOf(err), c.want)
		}
		p.Close()
		s.Close()
	}
}

func TestARedirectionIsNotFollowed(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/captures", http.RedirectHandler("/elsewhere", http.StatusSeeOther))
	mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"order_id":"o-7","state":"captured"}`))
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	p := NewProvider(ClientConfig{Address: func() (string, error) { return s.Listener.Addr().String(), nil }, Logger: slog.New(slog.DiscardHandler)})
	defer p.Close()
	if _, err := p.Capture(t.Context(), "o-7", "c-1", 990); classOf(err) != unknown {
		t.Errorf("%v is %s", err, classOf(err))
	}
}

func TestABrokenConnectionIsAnUnknownOutcomeAndIsTriedOnce(t *testing.T) {
	s := start(t, Config{System: ProviderSystem})
	p := NewProvider(patient(s))
	defer p.Close()
	if _, err := p.Void(t.Context(), "o-1"); err != nil { // a connection to use again
		t.Fatal(err)
	}
	s.tell(t, Misbehaviour{Mode: ModeLost})
	if _, err := p.Void(t.Context(), "o-7"); classOf(err) != unknown {
		t.Errorf("%v is %s", err, classOf(err))
	}
	if n := s.standing(t).Misbehaved[ModeLost]; n != 1 {
		t.Errorf("one call made %d requests", n)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/voids", strings.NewReader(`{"order_id":"o-7"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "k")
	if response, err := http.DefaultClient.Do(r); err == nil {
		_ = response.Body.Close()
		t.Errorf("a lost answer came: %s", response.Status)
	}
}

func TestTheBreakerOpensAfterFailuresInARowAndTriesAgainAfterAWait(t *testing.T) {
	s := start(t, Config{System: ProviderSystem})
	cfg := patient(s)
	cfg.Failures, cfg.Wait = 3, time.Second
	p := NewProvider(cfg)
	defer p.Close()
	fails := func(want class) {
		t.Helper()
		if _, err := p.Capture(t.Context(), "o-7", "declined-1", 990); classOf(err) != want {
			t.Fatalf("%v is %s; want %s", err, classOf(err), want)
		}
	}
	s.tell(t, Misbehaviour{Mode: ModeFail})
	fails(unknown)
	fails(unknown)
	s.tell(t, Misbehaviour{Mode: ModeOK})
	fails(done) // a refusal is a success and begins the row anew
	s.tell(t, Misbehaviour{Mode: ModeFail})
	for range 3 {
		fails(unknown)
	}
	asked := s.standing(t).Asked
	fails(unavailable)
	if now := s.standing(t).Asked; now != asked {
		t.Errorf("an open breaker let %d requests through", now-asked)
	}
	s.tell(t, Misbehaviour{Mode: ModeOK})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		_, err := p.Capture(t.Context(), "o-7", "declined-1", 990)
		if err == nil {
			break
		}
		if classOf(err) != unavailable || time.Now().After(deadline) {
			t.Fatalf("%v is %s", err, classOf(err))
		}
	}
	fails(done)
}

func TestAPermanentRefusalAndACallerThatLeavesDoNotOpenTheBreaker(t *testing.T) {
	s := start(t, Config{System: ProviderSystem})
	cfg := patient(s)
	cfg.Failures = 1
	p := NewProvider(cfg)
	defer p.Close()
	if _, err := p.Capture(t.Context(), "o-7", "c-1", -1); classOf(err) != permanent {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := p.Void(gone, "o-7"); !errors.Is(err, context.Canceled) || classOf(err) != unknown {
		t.Errorf("%v is %s", err, classOf(err))
	}
	if _, err := p.Void(t.Context(), "o-7"); err != nil {
		t.Error(err)
	}
}
