package drill

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
)

var (
	//go:embed sql/service.sql
	serviceFacts string
	//go:embed sql/state.sql
	stateQueries string
)

// Service reads the database of one service while the service works, and
// changes nothing in it. Its methods may be called from several goroutines.
type Service struct {
	name    string
	db      *sql.DB
	queries map[string]string
}

// OpenService opens a service's database, which is there already.
func OpenService(name, path string) (*Service, error) {
	queries, err := parseQueries(stateQueries)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+path+"?mode=rw&_pragma=query_only(1)&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, fmt.Errorf("open database of %s: %w", name, err)
	}
	db.SetMaxOpenConns(2)
	s := &Service{name: name, db: db, queries: map[string]string{}}
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
	if err := f.Copy(ctx, s.name, s.db, serviceFacts); err != nil {
		return err
	}
	return f.Copy(ctx, s.name, s.db, business)
}
