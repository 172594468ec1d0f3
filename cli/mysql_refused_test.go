package cli_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/settlemq/settle/cli"
)

// Every command that is given a database of MySQL which refuses it says what is
// wrong and the SQL that mends it, and shows no password.
func TestEveryCommandSaysWhyADatabaseOfMySQLRefusesItAndWhatMendsThat(t *testing.T) {
	at, err := url.Parse(mysqlDatabase(t))
	if err != nil {
		t.Fatal("the URL can't be read")
	}
	const canary = "c4n4ry"
	wrong, missing := *at, *at
	wrong.User = url.UserPassword(at.User.Username(), canary)
	missing.Path = "/no_such_database"
	server := wrong
	server.Path = "/"
	password, _ := at.User.Password()
	for _, c := range []struct {
		db, want string
		commands []string
	}{
		{wrong.String(), "ALTER USER", []string{"migrate", "doctor", "trail", "demo", "serve"}},
		{missing.String(), "CREATE DATABASE", []string{"doctor", "trail", "serve"}},
	} {
		config := writeConfig(t, t.TempDir(), "embedded: {dir: "+t.TempDir()+"/broker}\nsources:\n  order: {db: '"+c.db+"'}\n")
		args := map[string][]string{
			"migrate": {"migrate", "--db", c.db},
			"doctor":  {"doctor", "--db", c.db},
			"trail":   {"trail", "-c", config, "order-1"},
			"demo":    {"demo", "--db", server.String(), "--orders", "1"},
			"serve":   {"serve", "-c", config, "--check"},
		}
		for _, name := range c.commands {
			code, out, errs := output(t, args[name]...)
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
