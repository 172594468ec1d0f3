package drill

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
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

// Orders counts the orders of the order service into st.
func (s *Service) Orders(ctx context.Context, st *State) error {
	err := s.db.QueryRowContext(ctx, s.queries["orders"]).Scan(&st.Accepted, &st.Completed, &st.Cancelled)
	if err != nil {
		return fmt.Errorf("count orders: %w", err)
	}
	return nil
}

// Open adds to st what this service has not published, and its dead letters
// that are not closed.
func (s *Service) Open(ctx context.Context, st *State) error {
	var unpublished, dead, replaying int64
	if err := s.db.QueryRowContext(ctx, s.queries["unpublished"]).Scan(&unpublished); err != nil {
		return fmt.Errorf("count unpublished events of %s: %w", s.name, err)
	}
	if err := s.db.QueryRowContext(ctx, s.queries["dead"]).Scan(&dead, &replaying); err != nil {
		return fmt.Errorf("count dead letters of %s: %w", s.name, err)
	}
	st.Unpublished += unpublished
	st.DeadOpen += dead
	st.Replaying += replaying
	return nil
}

// Behind returns how many events of these types, emitted by any of the
// services, a consumer group of this one has not dealt with.
func (s *Service) Behind(ctx context.Context, group string, types []string, emitters []*Service) (int64, error) {
	list, err := json.Marshal(types)
	if err != nil {
		return 0, err
	}
	var emitted, consumed int64
	for _, from := range emitters {
		var n int64
		if err := from.db.QueryRowContext(ctx, s.queries["emitted"], sql.Named("types", string(list))).Scan(&n); err != nil {
			return 0, fmt.Errorf("count events of %s: %w", from.name, err)
		}
		emitted += n
	}
	err = s.db.QueryRowContext(ctx, s.queries["consumed"], sql.Named("types", string(list)), sql.Named("group", group)).Scan(&consumed)
	if err != nil {
		return 0, fmt.Errorf("count consumed events of %s: %w", s.name, err)
	}
	return emitted - consumed, nil
}
