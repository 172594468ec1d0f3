package dial

import "net/url"

// Dialect is the SQL that a database speaks.
type Dialect string

// The dialects.
const (
	SQLite   Dialect = "sqlite"
	Postgres Dialect = "postgres"
	MySQL    Dialect = "mysql" // and MariaDB
)

// dialectOf is that of a URL which databaseURL has returned.
func dialectOf(u *url.URL) Dialect {
	switch u.Scheme {
	case "sqlite":
		return SQLite
	case "mysql", "mariadb":
		return MySQL
	}
	return Postgres
}
