package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/settlemq/settle/cli"
)

// run runs one command line in process.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = cli.Main(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &o, Err: &e}, cli.Hooks{})
	return code, o.String(), e.String()
}

func TestWrongUsageExitsWith2AndNamesTheWrongWordAndTheRightOnes(t *testing.T) {
	for _, c := range []struct {
		args  []string
		wrong string
		right string
	}{
		{[]string{"demmo"}, `"demmo"`, "version"},
		{[]string{"config", "chek"}, `"chek"`, "check, schema"},
		{[]string{"version", "--jsn"}, "--jsn", "--json"},
		{[]string{"version", "now"}, "now", "takes no argument"},
		{[]string{"config", "check"}, "0 arguments", "one file"},
		{[]string{"config", "check", "/no/such/file"}, "/no/such/file", "no such file"},
	} {
		code, _, errs := run(t, c.args...)
		if code != cli.ExitUsage || !strings.Contains(errs, c.wrong) || !strings.Contains(errs, c.right) {
			t.Errorf("settle %v: exit %d, %q; want exit 2 naming %s and %s", c.args, code, errs, c.wrong, c.right)
		}
	}
}

func TestAConfigFileIsReadStrictly(t *testing.T) {
	for name, c := range map[string]struct {
		text, says string
		code       int
	}{
		"empty":             {"", "in order", cli.ExitOK},
		"all in order":      {"relay:\n  lease_ttl: 3s\n  rate_limit: {a: 5}\nconsumer:\n  retry: {attempts: 3}\n", "in order", cli.ExitOK},
		"the shop's rules":  {"shop:\n  payment_window: 2m\n  blocked: [mallory]\n  hold_above: 250.00\n  release_up_to: \"900\"\n", "in order", cli.ExitOK},
		"outside systems":   {"outside:\n  timeout: 300ms\n  breaker: {failures: 3, wait: 200ms}\n  decline_percent: 5\n", "in order", cli.ExitOK},
		"group's breaker":   {"consumer:\n  breaker: {failures: 3, distinct_keys: -1, wait: 10ms, max_wait: 1s}\n", "in order", cli.ExitOK},
		"three decimals":    {"shop:\n  refuse_above: 500.001\n", "shop.refuse_above is 500.001; it must be an amount above 0", cli.ExitUsage},
		"no amount":         {"shop:\n  coupon_from: some\n", "shop.coupon_from is some", cli.ExitUsage},
		"amount zero":       {"shop:\n  hold_above: 0.00\n", "shop.hold_above is", cli.ExitUsage},
		"negative amount":   {"shop:\n  release_up_to: -5\n", "shop.release_up_to is -5", cli.ExitUsage},
		"amount in a list":  {"shop:\n  release_up_to: [5]\n", "[2:18]", cli.ExitUsage},
		"negative window":   {"shop:\n  payment_window: -1s\n", "shop.payment_window is -1s; it must be positive", cli.ExitUsage},
		"nobody blocked":    {"shop:\n  blocked: [\"\"]\n", "shop.blocked", cli.ExitUsage},
		"over 100 percent":  {"outside:\n  decline_percent: 101\n", "outside.decline_percent is 101; it must be 0 to 100", cli.ExitUsage},
		"negative time-out": {"outside:\n  timeout: -1s\n", "outside.timeout", cli.ExitUsage},
		"negative failures": {"outside:\n  breaker: {failures: -1}\n", "outside.breaker.failures is -1", cli.ExitUsage},
		"negative wait":     {"outside:\n  breaker: {wait: -1s}\n", "outside.breaker.wait", cli.ExitUsage},
		"never, wrongly":    {"consumer:\n  breaker: {distinct_keys: -2}\n", "consumer.breaker.distinct_keys is -2", cli.ExitUsage},
		"waits crossed":     {"consumer:\n  breaker: {wait: 1s, max_wait: 1ms}\n", "consumer.breaker.max_wait is 1ms; it must be wait (1s) or more", cli.ExitUsage},
		"breaker misspelt":  {"consumer:\n  breaker: {failure: 3}\n", "consumer.breaker.failures", cli.ExitUsage},
		"unknown key":       {"relay:\n  batch_rowz: 3\n", `[2:3] unknown field "batch_rowz"`, cli.ExitUsage},
		"right keys named":  {"listn: x\n", "the keys are: listen, relay.lease_ttl", cli.ExitUsage},
		"wrong type":        {"relay:\n  batch_rows: many\n", "[2:15]", cli.ExitUsage},
		"not YAML":          {"relay: [\n", "config", cli.ExitUsage},
		"too large a batch": {"relay:\n  batch_rows: 5000\n", "relay.batch_rows is 5000; it must be 1 to 1000", cli.ExitUsage},
		"negative limit":    {"relay:\n  rate_limit: {a: -1}\n", "relay.rate_limit.a is -1", cli.ExitUsage},
		"jitter above one":  {"consumer:\n  retry: {jitter: 2}\n", "consumer.retry", cli.ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "settle.yml")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			code, out, errs := run(t, "config", "check", path)
			if code != c.code || !strings.Contains(out+errs, c.says) {
				t.Errorf("exit %d, %q, %q; want exit %d saying %q", code, out, errs, c.code, c.says)
			}
		})
	}
}

func TestTheSchemaListsEveryKeyWithItsDefault(t *testing.T) {
	code, out, _ := run(t, "config", "schema")
	if code != cli.ExitOK || !strings.Contains(out, "relay.lease_ttl") || !strings.Contains(out, "(default 10s)") {
		t.Errorf("exit %d, %q", code, out)
	}
	for _, line := range []string{"shop.payment_window", "shop.blocked", "outside.breaker.wait", "outside.decline_percent", "consumer.breaker.max_wait", "(default 10000.00)", "list of texts"} {
		if !strings.Contains(out, line) {
			t.Errorf("the schema lacks %s", line)
		}
	}
	if code, out, _ := run(t, "config", "schema", "--json"); code != cli.ExitOK || !strings.Contains(out, `"key": "consumer.retry.attempts"`) {
		t.Errorf("exit %d, %q", code, out)
	}
}

func TestTheFileOfServeIsCheckedAndDescribedToo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settle.yml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("embedded: {dir: /x}\nsources: {order: {db: 'sqlite:///order.db'}}\n")
	if out := must(t, cli.ExitOK, "config", "check", path); !strings.Contains(out, "in order") {
		t.Errorf("check says %s", out)
	}
	write("sources: {order: {db: 'sqlite:///order.db', keep: 3}}\n")
	if out := must(t, cli.ExitUsage, "config", "check", path); !strings.Contains(out, `unknown field "keep"`) || !strings.Contains(out, "sources.NAME.relay.keep_for") {
		t.Errorf("check says %s", out)
	}
	if out := must(t, cli.ExitUsage, "serve", "-c", path); !strings.Contains(out, `unknown field "keep"`) {
		t.Errorf("serve says %s", out)
	}
	must(t, cli.ExitUsage, "serve")
	serves := must(t, cli.ExitOK, "config", "schema", "serve")
	for _, want := range []string{"sources.NAME.db ", "sources.NAME.relay.lease_ttl", "(default 10s)", "embedded.port", "(default 4222)", "listen"} {
		if !strings.Contains(serves, want) {
			t.Errorf("the schema of serve lacks %q", want)
		}
	}
	if strings.Contains(serves, "shop.") {
		t.Error("the schema of serve has the shop's keys")
	}
	both := must(t, cli.ExitOK, "config", "schema", "--json")
	if !strings.Contains(both, `"file": "serve"`) || !strings.Contains(both, `"file": "shop"`) {
		t.Errorf("the schema of both is\n%s", both)
	}
	if out := must(t, cli.ExitUsage, "config", "schema", "sevre"); !strings.Contains(out, `"sevre"`) {
		t.Errorf("an unknown word: %s", out)
	}
}
