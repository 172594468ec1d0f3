package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/server"
)

// long reports whether the long forms of tests are asked for.
func long() bool { return os.Getenv("SETTLE_TEST_ALL") != "" }

// session is a connection of a writer, dialect how one is made and what it says.
type session interface {
	exec(ctx context.Context, query string, args ...any) error
	close(ctx context.Context)
}

type dialect struct {
	connect func(ctx context.Context, at, first string) (session, error)
	insert  string
	rows    func(t *testing.T, ctx context.Context, at string) []tableRow
}

type tableRow struct{ id, key, payload string }

// relayed is one database, relayed to a broker of this process by `settle
// serve` while writers that know nothing of it insert rows.
type relayed struct {
	t      *testing.T
	at     string // as serve and writers reach it
	broker string
	config string
	serves []*serving
	dialect
	// session is run by each writer when it has connected.
	session string

	mu    sync.Mutex
	acked map[string]bool
	tries int
}

// relayOf makes the tables at a URL and starts n programs.
func relayOf(t *testing.T, at string, n int) *relayed {
	t.Helper()
	l := &relayed{t: t, at: at, dialect: onPostgres(), broker: serveBroker(t), acked: map[string]bool{}}
	if strings.HasPrefix(at, "mysql:") {
		l.dialect = onMySQL()
	}
	must(t, cli.ExitOK, "migrate", "--db", at)
	l.start(n)
	return l
}

// start starts n programs and waits until they are ready.
func (l *relayed) start(n int) {
	l.t.Helper()
	t := l.t
	l.config = writeConfig(t, t.TempDir(), "sources:\n  order: {db: '"+l.at+"', broker: '"+l.broker+"', relay: {lease_ttl: 2s}}\n")
	l.serves = nil
	for range n {
		l.serves = append(l.serves, serve(t, l.config))
	}
	for _, s := range l.serves {
		s.await(t, "ready", func(h server.Health) bool { return h.Ready })
	}
	started := l.serves
	t.Cleanup(func() {
		if t.Failed() {
			tellStandings(t, started)
		}
	})
}

// write inserts the events 1, 2, 3 … of its keys until stop. One whose outcome
// is not known is inserted again under the same id before the next.
func (l *relayed) write(name string, stop <-chan struct{}) error {
	var conn session
	defer func() {
		if conn != nil {
			conn.close(context.Background())
		}
	}()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		case <-time.After(2 * time.Millisecond):
		}
		id, key, payload := fmt.Sprintf("%s-%d", name, i), fmt.Sprintf("%s-%d", name, i%keysEach), fmt.Sprintf(`{"n":%d}`, i/keysEach+1)
		for until := time.Now().Add(time.Minute); ; {
			err := l.insertOne(&conn, id, key, payload)
			if err == nil {
				break
			}
			if time.Now().After(until) {
				return fmt.Errorf("insert %s: %w", id, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		l.mu.Lock()
		l.acked[id] = true
		l.mu.Unlock()
	}
}

func (l *relayed) insertOne(conn *session, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	l.mu.Lock()
	l.tries++
	l.mu.Unlock()
	var err error
	if *conn == nil {
		if *conn, err = l.connect(ctx, l.at, l.session); err != nil {
			*conn = nil
			return err
		}
	}
	if err = (*conn).exec(ctx, l.insert, args...); err != nil {
		(*conn).close(ctx)
		*conn = nil
	}
	return err
}

// under runs writers while it happens, and returns when all of them know what
// has become of their rows.
func (l *relayed) under(writers int, happens func()) {
	l.t.Helper()
	stop := make(chan struct{})
	var group sync.WaitGroup
	run := settle.NewID()[24:]
	for w := range writers {
		group.Go(func() {
			if err := l.write(fmt.Sprintf("w%s%d", run, w), stop); err != nil {
				l.t.Error(err)
			}
		})
	}
	happens()
	close(stop)
	group.Wait()
}

// sent waits for n events more of whatever program sends them.
func (l *relayed) sent(n int64) {
	l.t.Helper()
	from := l.published()
	for until := time.Now().Add(2 * time.Minute); l.published() < from+n; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			l.t.Fatalf("%d events more are never sent", n)
		}
	}
}

func (l *relayed) published() (n int64) {
	for _, s := range l.serves {
		h, _ := s.read()
		n += h.Sources["order"].Published
	}
	return n
}

// account is what table and broker's log say of each other.
type account struct {
	rows, first, again int
	// Lost are rows that the broker never got, gone what it got and no row says,
	// reordered keys whose first copies are not in order, forgotten what was
	// answered as committed and is not there.
	lost, gone, reordered, forgotten []string
}

// settled waits until nothing is left to send, and accounts for all.
func (l *relayed) settled() account {
	l.t.Helper()
	ended := time.Now()
	for _, s := range l.serves {
		s.awaitWithin(l.t, 2*time.Minute, "done", func(h server.Health) bool {
			b := h.Sources["order"].Backlog
			return h.Ready && b != nil && b.Asked.After(ended) && b.Pending+b.Parked == 0
		})
	}
	sent := int(l.published())
	a := accountFor(l.rowsNow(), logOf(l.t, l.broker), l.acked)
	a.again = sent - a.first
	return a
}

func (l *relayed) rowsNow() []tableRow {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return l.rows(l.t, ctx, l.at)
}

func logOf(t *testing.T, broker string) (all []tableRow) {
	t.Helper()
	tap, err := dial.Tap(broker)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tap.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = tap.ReadAll(ctx, settle.DefaultTopic, func(r settle.Record) error {
		all = append(all, tableRow{r.Event.ID, r.Event.AggregateID, string(r.Event.Payload)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func accountFor(rows, log []tableRow, acked map[string]bool) (a account) {
	there, seen, last := map[string]bool{}, map[string]bool{}, map[string]int{}
	for _, r := range rows {
		there[r.id] = true
	}
	for _, r := range log {
		if seen[r.id] {
			continue
		}
		seen[r.id] = true
		var of struct{ N int }
		if err := json.Unmarshal([]byte(r.payload), &of); err != nil || of.N <= last[r.key] {
			a.reordered = append(a.reordered, fmt.Sprintf("%s: %s behind %d", r.key, r.payload, last[r.key]))
		}
		last[r.key] = of.N
		if !there[r.id] {
			a.gone = append(a.gone, r.id)
		}
	}
	for _, r := range rows {
		if !seen[r.id] {
			a.lost = append(a.lost, r.id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(acked)) {
		if !there[id] {
			a.forgotten = append(a.forgotten, id)
		}
	}
	a.rows, a.first = len(rows), len(seen)
	return a
}

// want fails for all but what the database itself may have lost.
func (a account) want(t *testing.T, mayForget bool, again int) {
	t.Helper()
	t.Logf("%d rows, %d events in the broker's log, %d of them sent again (bound %d), %d answered as committed and lost by the database", a.rows, a.first, a.again, again, len(a.forgotten))
	if len(a.lost) > 0 || len(a.reordered) > 0 {
		t.Errorf("never sent: %q; out of order: %q", a.lost, a.reordered)
	}
	if len(a.gone) > 0 && !mayForget {
		t.Errorf("sent and not there: %q", a.gone)
	}
	if len(a.forgotten) > 0 && !mayForget {
		t.Errorf("answered as committed and not there: %q", a.forgotten)
	}
	if a.again > again {
		t.Errorf("%d events were sent again, more than %d", a.again, again)
	}
	if a.rows == 0 {
		t.Error("nothing was written")
	}
}

// inFlight bounds what one interruption of a relay has sent again: the batch
// that was on its way, and the one that was being recorded.
const inFlight = 2 * 500

func TestAnAccountFindsWhatIsLostGoneReorderedAndForgotten(t *testing.T) {
	row := func(id string, n int) tableRow { return tableRow{id, "k", fmt.Sprintf(`{"n":%d}`, n)} }
	a, b, c := row("a", 1), row("b", 2), row("c", 3)
	all := []tableRow{a, b, c}
	for name, x := range map[string]struct {
		rows, log []tableRow
		acked     string
		want      [4]int
	}{
		"sound, one sent again": {all, []tableRow{a, b, a, c}, "a b c", [4]int{}},
		"lost":                  {all, []tableRow{a, b}, "a", [4]int{1, 0, 0, 0}},
		"gone":                  {[]tableRow{a, b}, all, "a", [4]int{0, 1, 0, 0}},
		"reordered":             {all, []tableRow{a, c, b}, "a", [4]int{0, 0, 1, 0}},
		"forgotten":             {all, all, "a d", [4]int{0, 0, 0, 1}},
	} {
		acked := map[string]bool{}
		for _, id := range strings.Fields(x.acked) {
			acked[id] = true
		}
		got := accountFor(x.rows, x.log, acked)
		if n := [4]int{len(got.lost), len(got.gone), len(got.reordered), len(got.forgotten)}; n != x.want {
			t.Errorf("%s: found %v (%+v), want %v", name, n, got, x.want)
		}
	}
}
