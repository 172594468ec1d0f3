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
	if code, out, _ := run(t, "config", "schema", "--json"); code != cli.ExitOK || !strings.Contains(out, `"key": "consumer.retry.attempts"`) {
		t.Errorf("exit %d, %q", code, out)
	}
}
