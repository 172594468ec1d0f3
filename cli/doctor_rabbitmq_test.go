package cli_test

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/internal/services"
)

func TestDoctorExaminesRabbitMQ(t *testing.T) {
	u, err := url.Parse(services.URL(t, "SETTLE_TEST_RABBITMQ", "rabbitmq"))
	if err != nil {
		t.Fatal("the URL of the server can't be read")
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	u.RawQuery = "management=http://" + net.JoinHostPort(u.Hostname(), strconv.Itoa(port+1))
	at, wrong, away := u.String(), *u, *u
	wrong.User, away.Host = url.UserPassword("settle", "c4n4ry"), "127.0.0.1:1"
	code, out, errs := run(t, "doctor", "--broker", at, "--topic", "none")
	if code != cli.ExitFinding || !strings.Contains(out, "warn  topics: not there: none") || !strings.Contains(out, "ok    management: it answers") || strings.Contains(out+errs, password) {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	must(t, cli.ExitOK, "doctor", "--broker", at, "--topic", "none", "--lax")
	for at, want := range map[string]string{wrong.String(): "refuses user", away.String(): "connection refused"} {
		if code, out, errs := run(t, "doctor", "--broker", at); code != cli.ExitUnreachable || !strings.Contains(errs, want) || strings.Contains(out+errs, "c4n4ry") || strings.Contains(out+errs, password) {
			t.Errorf("exit %d; it does not say %q\n%s%s", code, want, out, errs)
		}
	}
	db, _ := migrated(t)
	config := filepath.Join(t.TempDir(), "settle.yml")
	text := "sources:\n  a: {db: '" + db + "', broker: '" + at + "', topics: [none], groups: [points]}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := must(t, cli.ExitFinding, "doctor", "-c", config); !strings.Contains(out, "warn  a topics: not there: none") || !strings.Contains(out, "bad   a queue_members: no queue yet") {
		t.Errorf("of a file it says\n%s", out)
	}
}
