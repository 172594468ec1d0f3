package dial

import (
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/sqlite"
)

// Doctor returns what examines the database at a URL and changes nothing in
// it. It does no I/O. A URL that can't be is a *URLError.
func Doctor(rawURL string) (doctor.Checker, error) {
	u, err := databaseURL(rawURL)
	if err != nil {
		return nil, err
	}
	switch dialectOf(u) {
	case SQLite:
		return sqlite.NewDoctor(u.Path, sqlite.DoctorConfig{}), nil
	case MySQL:
		return mysql.NewDoctor(rawURL, mysql.DoctorConfig{}), nil
	}
	return postgres.NewDoctor(rawURL, postgres.DoctorConfig{}), nil
}
