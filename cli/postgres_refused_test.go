package cli_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/settlemq/settle/cli"
)

// Every command that is given a database which refuses it says in a line what
// is wrong and the SQL that mends it, and shows no password.
func TestEveryCommandSaysWhyADatabaseRefusesItAndWhatMendsThat(t *testing.T) {
	at, err := url.Parse(postgresSchema(t))
	if err != nil {
		t.Fatal("the URL can't be read")
	}
	const canary = "c4n4ry"
	wrong, missing := *at, *at
	wrong.User = url.UserPassword("postgres", canary)
	missing.Path = "/no_such_database"
	bare := func(at url.URL) string { at.RawQuery = ""; return at.String() } // demo makes schemas of its own
	password, _ := at.User.Password()
	for _, c := range []struct {
		db, bare string
		want     string
	}{
		{wrong.String(), bare(wrong), "ALTER ROLE"},
		{missing.String(), bare(missing), "CREATE DATABASE"},
	} {
		config := writeConfig(t, t.TempDir(), "embedded: {dir: "+t.TempDir()+"/broker}\nsources:\n  order: {db: '"+c.db+"'}\n")
		for name, args := range map[string][]string{
			"migrate": {"migrate", "--db", c.db},
			"doctor":  {"doctor", "--db", c.db},
			"trail":   {"trail", "-c", config, "order-1"},
			"demo":    {"demo", "--db", c.bare, "--orders", "1"},
			"serve":   {"serve", "-c", config, "--check"},
		} {
			code, out, errs := output(t, args...)
			said := out + errs
			if code == cli.ExitOK || !strings.Contains(said, c.want) {
				t.Errorf("%s ends with %d and says %s%s; want %q", name, code, out, errs, c.want)
			}
			if strings.Contains(said, canary) || strings.Contains(said, password) {
				t.Errorf("%s shows the password", name)
			}
		}
	}
}
