package cli_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/examples/shop"
	"github.com/settlemq/settle/examples/shop/outside"
)

// outsideSystems serves a shop's outside systems until stop is called.
func outsideSystems(t *testing.T, dir string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	cfg := shop.Config{Dir: dir, Roles: outside.Systems(), Logger: slog.New(slog.DiscardHandler)}
	go func() { ended <- shop.Run(ctx, cfg) }()
	for _, system := range outside.Systems() {
		for {
			if _, err := outside.Inspect(t.Context(), dir, system); err == nil {
				break
			}
			select {
			case err := <-ended:
				t.Fatal(err)
			default:
			}
		}
	}
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestOutsideSystemsAreShownAndToldHowToBehave(t *testing.T) {
	dir := t.TempDir()
	stop := outsideSystems(t, dir)
	for _, c := range []struct {
		words []string
		says  []string
	}{
		{nil, []string{"provider   ok; asked 0 times\n", "coupons    ok;", "carrier    ok;"}},
		{[]string{"coupons=hang", "--customers", "a,b", "--for", "1h", "--share", "0.3"}, []string{"coupons    hang for a and b in 30 % of the cases, 1h0m0s yet; asked 0 times\n"}},
		{[]string{"coupons=slow", "provider", "--delay", "20ms"}, []string{"coupons    slow by 20ms, else hang for a and b", "provider   ok"}},
		{[]string{"coupons=ok", "--customers", "a"}, []string{"coupons    slow by 20ms, else hang for b"}},
		{[]string{"coupons=ok"}, []string{"coupons    ok;"}},
	} {
		code, out, errs := run(t, append([]string{"shop", "outside", "--dir", dir}, c.words...)...)
		if code != cli.ExitOK {
			t.Errorf("%v: exit %d, %s", c.words, code, errs)
		}
		for _, want := range c.says {
			if !strings.Contains(out, want) {
				t.Errorf("%v: %q; want %q", c.words, out, want)
			}
		}
	}
	code, out, _ := run(t, "shop", "outside", "--dir", dir, "--json", "carrier=away", "provider")
	var all []outside.Standing
	if err := json.Unmarshal([]byte(out), &all); code != cli.ExitOK || err != nil || len(all) != 2 || all[0].Rules[0].Mode != outside.ModeAway || all[1].System != outside.ProviderSystem {
		t.Errorf("exit %d, %v, %s", code, err, out)
	}
	stop()
	if code, _, errs := run(t, "shop", "outside", "--dir", dir, "coupons"); code != cli.ExitUnreachable || !strings.Contains(errs, "does not run; start the shop") {
		t.Errorf("the shop has ended: exit %d, %s", code, errs)
	}
}

func TestAWrongOrderToAnOutsideSystemExitsWith2AndTellsNobody(t *testing.T) {
	dir := t.TempDir()
	stop := outsideSystems(t, dir)
	defer stop()
	for _, c := range []struct {
		words []string
		says  string
	}{
		{[]string{"coupons=fail", "cupons"}, `"cupons"; the systems are provider, coupons, carrier`},
		{[]string{"coupons=fail", "provider=hung"}, `"hung"; the modes are ok, slow, fail, hang, lost, garbage, away`},
		{[]string{"coupons="}, "the modes are"},
		{[]string{"carrier=fail", "--customers", "a"}, "told of no customers"},
		{[]string{"coupons=fail", "--customers", "a b"}, "customers"},
		{[]string{"coupons=fail", "--share", "0"}, "--share is 0"},
		{[]string{"coupons=fail", "--share", "1.5"}, "--share is 1.5"},
		{[]string{"coupons=slow", "--delay", "1h"}, "delay is 1h"},
		{[]string{"coupons=fail", "--for", "-1s"}, "for is -1s"},
		{[]string{"coupons", "--for", "1s"}, "SYSTEM=MODE"},
		{[]string{"--nope"}, "--customers"},
	} {
		if code, out, errs := run(t, append([]string{"shop", "outside", "--dir", dir}, c.words...)...); code != cli.ExitUsage || !strings.Contains(errs, c.says) {
			t.Errorf("%v: exit %d, %s%s; want exit 2 saying %s", c.words, code, out, errs, c.says)
		}
	}
	if s, err := outside.Inspect(t.Context(), dir, outside.CouponSystem); err != nil || len(s.Rules) > 0 {
		t.Errorf("standing %+v, %v", s, err)
	}
}

func TestAShopOnAPortInUseSaysSoInOneLine(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	code, _, errs := run(t, "shop", "--dir", t.TempDir(), "--listen", l.Addr().String())
	if code != cli.ExitUnreachable || !strings.Contains(errs, l.Addr().String()) || !strings.Contains(errs, "--listen") || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d, %s", code, errs)
	}
}

func TestAFileInPlaceOfTheDirectoryIsWrongUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		for _, command := range []string{"shop", "demo"} {
			if code, _, errs := run(t, command, "--dir", dir); code != cli.ExitUsage || !strings.Contains(errs, "--dir "+dir) {
				t.Errorf("settle %s --dir %s: exit %d, %s", command, dir, code, errs)
			}
		}
	}
}

func TestARoleIsOneOfTheShopsOrSeveral(t *testing.T) {
	for _, c := range []struct {
		words []string
		says  string
	}{
		{[]string{"order-relay,order-consumr"}, `"order-consumr"; the roles are broker, which runs alone, order-api`},
		{[]string{"broker,order-relay"}, `"broker"`},
		{[]string{""}, `unknown role ""`},
		{[]string{"provider", "--outside", "bank=127.0.0.1:1"}, "provider, coupons, carrier"},
		{[]string{"provider", "--outside", "coupons"}, "NAME=HOST:PORT"},
		{[]string{"provider", "--outside", "coupons=127.0.0.1"}, "NAME=HOST:PORT"},
	} {
		if code, _, errs := run(t, append([]string{"role", "--dir", t.TempDir()}, c.words...)...); code != cli.ExitUsage || !strings.Contains(errs, c.says) {
			t.Errorf("settle role %v: exit %d, %s; want exit 2 saying %s", c.words, code, errs, c.says)
		}
	}
}
