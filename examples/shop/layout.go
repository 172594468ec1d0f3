package shop

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/settlemq/settle/dial"
)

// databaseFile stands in the directory of a shop that keeps its tables on a
// server: the URL of a PostgreSQL database, whose search_path is what the names
// of the services' schemas begin with, or that of a MySQL or MariaDB server,
// whose path is what those of their databases begin with. Without it each
// service has the file NAME.db.
const databaseFile = "database.url"

// Database is where a service keeps its tables. Schema is what it has for itself
// on a server, a schema or in MySQL a database; it is empty for a file.
type Database struct{ Service, URL, Schema string }

// Databases returns where the services of the shop in dir keep their tables,
// the order service first. They need not be there yet.
func Databases(dir string) ([]Database, error) {
	var all []Database
	for _, name := range serviceNames() {
		u, err := databaseURL(dir, name)
		if err != nil {
			return nil, err
		}
		d := Database{Service: name, URL: u}
		if at, err := url.Parse(u); err == nil {
			d.Schema = schemaOf(at)
		}
		all = append(all, d)
	}
	return all, nil
}

// Holds reports whether there is a shop in dir, and whether it keeps its tables
// on a server.
func Holds(dir string) (shop, server bool) {
	if _, err := os.Stat(filepath.Join(dir, databaseFile)); err == nil {
		return true, true
	}
	_, err := os.Stat(filepath.Join(dir, "order.db"))
	return err == nil, false
}

// ErrElsewhere means that a shop keeps its tables elsewhere.
var ErrElsewhere = errors.New("the shop keeps its tables elsewhere")

// UseDatabase notes in dir, which is there, that its shop keeps its tables in
// the PostgreSQL database, or on the MySQL or MariaDB server, at a URL: a schema
// or a database for each service, of a name that no other directory's shop has.
// The URL names neither schema nor MySQL database. The file that holds the URL, password
// included, can be read by its owner alone. A shop that is there already may
// change how its database is reached; another one is ErrElsewhere.
func UseDatabase(dir, rawURL string) error {
	if err := CheckDatabase(rawURL); err != nil {
		return fmt.Errorf("use database: %w", err)
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return fmt.Errorf("use database: %w", err)
	}
	prefix := "shop_" + strings.ToLower(rand.Text()[:8])
	before, err := usedDatabase(dir)
	if there, _ := Holds(dir); there {
		if err != nil || before == nil || !sameDatabase(u, before) {
			return fmt.Errorf("use database for the shop in %s: %w", dir, errors.Join(ErrElsewhere, err))
		}
		prefix = schemaOf(before)
	}
	path := filepath.Join(dir, databaseFile)
	if err := os.WriteFile(path+".new", []byte(inSchema(*u, prefix)+"\n"), 0o600); err != nil {
		return fmt.Errorf("use database: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("use database: %w", err)
	}
	return nil
}

// CheckDatabase returns an error if UseDatabase can't take a URL. It does no I/O.
func CheckDatabase(rawURL string) error {
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return dial.CheckStore(rawURL) // its error shows no password
	case onMySQL(u):
		if strings.Trim(u.Path, "/") != "" {
			return fmt.Errorf("the URL names a database (%s); leave it out, each service gets one of its own", strings.Trim(u.Path, "/"))
		}
		return dial.CheckStore(inSchema(*u, "shop"))
	case strings.HasPrefix(u.Scheme, "postgres"):
		if u.Query().Has(schemaOption) {
			return errors.New("the URL names a search_path; leave it out, each service gets a schema of its own")
		}
		return dial.CheckStore(rawURL)
	}
	return errors.New("it takes the URL of a PostgreSQL database (postgres://…/name) or of a MySQL or MariaDB server (mysql://…/); without it each service has a file in the shop's directory")
}

// PingDatabase asks the server at a URL that CheckDatabase has passed whether it
// is there and lets us in. It changes nothing.
func PingDatabase(ctx context.Context, rawURL string) error {
	u, err := url.Parse(rawURL)
	if err != nil {
		return err
	}
	if onMySQL(u) {
		rawURL = inSchema(*u, "information_schema")
	}
	s, err := dial.Schema(ctx, rawURL, false)
	if err != nil {
		return err
	}
	return s.Close()
}

// onMySQL reports whether a URL is that of a MySQL or MariaDB server.
func onMySQL(u *url.URL) bool { return u.Scheme == "mysql" || u.Scheme == "mariadb" }

// schemaOption is the option of a PostgreSQL URL that names the schema.
const schemaOption = "search_path"

func inSchema(u url.URL, schema string) string {
	if onMySQL(&u) {
		u.Path = "/" + schema
		return u.String()
	}
	q := u.Query()
	q.Set(schemaOption, schema)
	u.RawQuery = q.Encode()
	return u.String()
}

// schemaOf is what inSchema has put in.
func schemaOf(u *url.URL) string {
	if onMySQL(u) {
		return strings.TrimPrefix(u.Path, "/")
	}
	return u.Query().Get(schemaOption)
}

// sameDatabase compares all but who comes, and how.
func sameDatabase(a, b *url.URL) bool {
	return a.Host == b.Host && onMySQL(a) == onMySQL(b) && (onMySQL(a) || a.Path == b.Path)
}

// usedDatabase returns what UseDatabase has noted; nil when it has not.
func usedDatabase(dir string) (*url.URL, error) {
	text, err := os.ReadFile(filepath.Join(dir, databaseFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(strings.TrimSpace(string(text)))
	if err != nil || schemaOf(u) == "" {
		return nil, fmt.Errorf("%s is not what the shop has written", filepath.Join(dir, databaseFile))
	}
	return u, nil
}

// databaseURL is where a service of the shop in dir keeps its database.
func databaseURL(dir, service string) (string, error) {
	u, err := usedDatabase(dir)
	if err != nil {
		return "", fmt.Errorf("find the database of the %s service: %w", service, err)
	}
	if u != nil {
		return inSchema(*u, schemaOf(u)+"_"+service), nil
	}
	path, err := filepath.Abs(filepath.Join(dir, service+".db"))
	if err != nil {
		return "", fmt.Errorf("find directory %s: %w", dir, err)
	}
	return (&url.URL{Scheme: "sqlite", Path: path}).String(), nil
}

func brokerDir(dir string) string { return filepath.Join(dir, "broker") }
