package drill

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"

	_ "github.com/jackc/pgx/v5/stdlib" // sql.Open("pgx", …)
)

var (
	//go:embed sql/service.sql
	serviceFacts string
	//go:embed sql/state.sql
	stateQueries string
	//go:embed sql/postgres/service.sql
	postgresFacts string
	//go:embed sql/postgres/state.sql
	postgresState string
	//go:embed sql/mysql/service.sql
	mysqlFacts string
	//go:embed sql/mysql/state.sql
	mysqlState string
)

// Service reads the database of one service while the service works, and
// changes nothing in it. Its methods may be called from several goroutines.
type Service struct {
	name    string
	db      *sql.DB
	facts   string
	queries map[string]string
	// snapshot is how a transaction sees one state of the database.
	snapshot *sql.TxOptions
	// anew is true where what is new can't be told by a number: all is counted
	// again each time.
	anew bool
	// marks is true where parameters are ? alone.
	marks bool
}

// OpenService opens a service's database at a URL: sqlite:///abs/path.db, a
// file that is there already, postgres://… or mysql://…. It does not wait for a server.
func OpenService(name, rawURL string) (*Service, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("open database of %s: its address can't be read", name)
	}
	s := &Service{name: name, queries: map[string]string{}, snapshot: &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}, anew: true}
	var state string
	switch u.Scheme {
	case "sqlite":
		s.facts, state, s.snapshot, s.anew = serviceFacts, stateQueries, nil, false
		s.db, err = sql.Open("sqlite", "file:"+u.EscapedPath()+"?mode=rw&_pragma=query_only(1)&_pragma=busy_timeout(5000)")
	case "mysql", "mariadb":
		s.facts, state, s.marks = mysqlFacts, mysqlState, true
		s.db, err = openMySQL(u)
	default:
		s.facts, state = postgresFacts, postgresState
		s.db, err = sql.Open("pgx", rawURL)
	}
	if err != nil {
		return nil, fmt.Errorf("open database of %s: its address can't be read", name)
	}
	s.db.SetMaxOpenConns(2)
	queries, err := parseQueries(state)
	if err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	for _, q := range queries {
		s.queries[q.id] = q.text
	}
	return s, nil
}

// Close closes the database.
func (s *Service) Close() error { return s.db.Close() }

// Export copies the service's facts: what every service has, and what the
// queries of business tell of this one.
func (s *Service) Export(ctx context.Context, f *Facts, business string) error {
	if err := f.Copy(ctx, s.name, s.db, s.facts); err != nil {
		return err
	}
	return f.Copy(ctx, s.name, s.db, business)
}
