package postgres

import "github.com/jackc/pgx/v5/pgxpool"

// left looks at an error of the server. One that can't be written to any more
// was the primary once, or some of the sessions on it are older than the change
// of a setting: all connections are made anew, so that they lead to where the
// URL leads now. Those in use go when they are given back.
func (s *Store) left(err error) {
	if !hasState(err, stateReadOnly) {
		return
	}
	for _, p := range []*pgxpool.Pool{s.own, s.business, s.reading} {
		p.Reset()
	}
}
