package cli_test

import (
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/cli"
)

// TestTheRightsThatTheDocumentNamesAreEnough gives accounts what docs/mysql.md
// says, and lets each do its part.
func TestTheRightsThatTheDocumentNamesAreEnough(t *testing.T) {
	at, err := url.Parse(mysqlDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	server := *at
	server.Path = "/"
	page, err := os.ReadFile("../docs/mysql.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```sql\n")
	grants, _, _ := strings.Cut(rest, "```")
	name, suffix := strings.Trim(at.Path, "/"), strings.ReplaceAll(settle.NewID(), "-", "")[20:]
	as := func(account string) string {
		u := *at
		u.User = url.UserPassword(account+suffix, "w0rd@/:")
		return u.String()
	}
	statements := []string{"CREATE DATABASE " + name}
	for _, account := range []string{"migrator", "relay", "producer"} {
		if !strings.Contains(grants, " TO "+account+"@") {
			t.Fatalf("%s gets no right in\n%s", account, grants)
		}
		user := account + suffix + "@'%'"
		statements = append(statements, "CREATE USER "+user+" IDENTIFIED BY 'w0rd@/:'")
		t.Cleanup(func() { execMySQL(t, server.String(), "DROP USER "+user) })
	}
	grants = regexp.MustCompile(`(migrator|relay|producer)@`).ReplaceAllString(grants, "${1}"+suffix+"@")
	grants = strings.ReplaceAll(grants, "ON orders.", "ON "+name+".")
	before, once, _ := strings.Cut(grants, "-- a producer")
	execMySQL(t, server.String(), strings.Join(statements, ";")+";"+before)
	if code, _, errs := output(t, "migrate", "--db", as("relay")); code != cli.ExitUnreachable || !strings.Contains(errs, "CREATE") {
		t.Errorf("who may not change tables is told %d, %s", code, errs)
	}
	must(t, cli.ExitOK, "migrate", "--db", as("migrator"))
	if out := must(t, cli.ExitOK, "doctor", "--db", as("relay")); strings.Contains(out, "lacks") || strings.Contains(out, "hidden") {
		t.Errorf("doctor says\n%s", out)
	}
	execMySQL(t, server.String(), "-- a producer"+once)
	execMySQL(t, as("producer"), insertOne)
	if out := must(t, cli.ExitOK, "trail", "k", "--db", "order="+as("relay")); !strings.Contains(out, "e-1") {
		t.Errorf("the trail is\n%s", out)
	}
	must(t, cli.ExitOK, "pause", "order", "relay", "--db", "order="+as("relay"), "--reason", "a test")
}
