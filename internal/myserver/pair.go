package myserver

import (
	"net/url"
	"testing"

	"github.com/settlemq/settle/internal/services"
)

// Pair is a primary and a replica that follows it and can't be written to. At is
// the URL of a database, which leads to the primary until Promote.
type Pair struct {
	Primary, Replica *Server
	At               string
	way              *services.Link
}

// Replicated starts a pair, with a database in it. Nobody waits for the replica.
func Replicated(t testing.TB, database string) *Pair {
	t.Helper()
	both := start(t, "mariadb-primary", "mariadb-replica")
	p := &Pair{Primary: both[0], Replica: both[1]}
	p.way = services.NewLink(t, p.Primary.Host())
	u, err := url.Parse(p.Primary.Database(database))
	if err != nil {
		t.Fatal(err)
	}
	u.Host = p.way.Addr()
	p.At = u.String()
	p.Replica.Follows(p.Primary)
	return p
}

// Promote lets the replica take over, and At lead to it.
func (p *Pair) Promote() {
	p.Replica.Promote()
	p.way.Move(p.Replica.Host())
}
