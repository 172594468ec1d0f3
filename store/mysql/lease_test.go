package mysql

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

func gapsOf(t *testing.T, s *Store) string {
	t.Helper()
	runs, err := gaps(t.Context(), s.reader, gapWindow, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range runs {
		all = append(all, fmt.Sprint(r[0], "-", r[1]))
	}
	return strings.Join(all, " ")
}

func TestAWriterThatIsOvertakenBeforeItsEndWritesNothingAndHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	at := DatabaseForTest(t)
	clock := time.Now()
	cfg := Config{Clock: func() time.Time { return clock }}
	s := OpenForTest(t, at, cfg)
	first, second := s.Log(), OpenForTest(t, at, cfg).Log()
	lease, err := first.Lead(t.Context(), "first", 0, time.Second)
	if err != nil || !lease.Held {
		t.Fatalf("%+v, %v", lease, err)
	}
	err = first.write(t.Context(), lease, func(tx *sql.Tx) error {
		w := flushing{ctx: t.Context(), tx: tx, now: clock}
		if w.gaps([]outboxlog.Run{{1, 2}}); w.err != nil {
			return w.err
		}
		// The process is stopped here for longer than its lease.
		clock = clock.Add(2 * time.Second)
		next, err := second.Lead(t.Context(), "second", 0, time.Second)
		if err != nil || !next.Held {
			t.Errorf("the standby can't take over: %+v, %v", next, err)
		}
		return nil
	})
	if !errors.Is(err, settle.ErrFenced) {
		t.Errorf("says %v, want ErrFenced", err)
	}
	if got := gapsOf(t, s); got != "" {
		t.Errorf("it has written %s", got)
	}
}

func TestATakeoverWaitsForAWriteThatHoldsTheLease(t *testing.T) {
	t.Parallel()
	at := DatabaseForTest(t)
	clock := time.Now()
	cfg := Config{Clock: func() time.Time { return clock }, LockTimeout: patience}
	first, second := OpenForTest(t, at, cfg).Log(), OpenForTest(t, at, cfg).Log()
	lease, err := first.Lead(t.Context(), "first", 0, time.Minute)
	if err != nil || !lease.Held {
		t.Fatalf("%+v, %v", lease, err)
	}
	clock = clock.Add(2 * time.Minute)
	x := begin(t, at)
	x.do("SELECT 1 FROM t_outbox_lease LOCK IN SHARE MODE")
	taken := make(chan relay.Lease, 1)
	go func() {
		next, err := second.Lead(t.Context(), "second", 0, time.Minute)
		if err != nil {
			t.Error(err)
		}
		taken <- next
	}()
	waits := func() (n int) {
		err := second.s.reader.QueryRowContext(t.Context(), `SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'SELECT ended FROM t_outbox_lease%FOR UPDATE'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for until := time.Now().Add(patience); waits() == 0; {
		if time.Now().After(until) {
			t.Fatal("the takeover does not wait")
		}
	}
	x.do("COMMIT")
	if next := <-taken; !next.Held {
		t.Errorf("it does not lead: %+v", next)
	}
}

// A leader that was stopped while it holds the lease for share does so until the
// server ends its session.
func TestAClientThatIsStoppedInsideItsWriteIsEndedByTheServer(t *testing.T) {
	t.Parallel()
	at := DatabaseForTest(t)
	clock := time.Now()
	cfg := Config{Clock: func() time.Time { return clock }, IdleTimeout: time.Second, LockTimeout: patience, StatementTimeout: patience}
	first, second := OpenForTest(t, at, cfg), OpenForTest(t, at, cfg).Log()
	l := first.Log()
	lease := leadTest(t, l)
	tx, err := first.own.BeginTx(t.Context(), &readCommitted)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	var run string
	if err := tx.QueryRowContext(t.Context(), fence, lease.Lane, lease.Owner, lease.Epoch).Scan(&run); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(2 * time.Hour)
	next, err := second.Lead(t.Context(), "second", 0, time.Minute)
	if err != nil || !next.Held {
		t.Errorf("the standby can't take over: %+v, %v", next, err)
	}
	if err := tx.Commit(); err == nil {
		t.Error("what the stopped client had written was committed")
	}
}

// reign is the time during which a process believes that it leads.
type reign struct {
	epoch      int64
	from, till time.Time
}

// overlaps names two reigns of different leaders at one time.
func overlaps(reigns []reign) []string {
	slices.SortFunc(reigns, func(a, b reign) int { return int(a.epoch - b.epoch) })
	var wrong []string
	latest, last := reign{}, reign{}
	for _, r := range reigns {
		if r.epoch != last.epoch {
			latest, last = last, r
		}
		if latest.epoch != 0 && r.from.Before(latest.till) {
			wrong = append(wrong, fmt.Sprintf("epoch %d leads %v before epoch %d has ended", r.epoch, latest.till.Sub(r.from), latest.epoch))
		}
		if r.till.After(last.till) {
			last = r
		}
	}
	return wrong
}

func TestNeverDoTwoLeadAtOneTime(t *testing.T) {
	t.Parallel()
	if len(overlaps([]reign{{1, time.Unix(1, 0), time.Unix(4, 0)}, {1, time.Unix(2, 0), time.Unix(5, 0)}, {2, time.Unix(4, 0), time.Unix(6, 0)}})) == 0 {
		t.Error("two who lead at one time are not found")
	}
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	const ttl = 40 * time.Millisecond
	end := time.Now().Add(3 * time.Second)
	var mu sync.Mutex
	var reigns []reign
	var group sync.WaitGroup
	for i := range 3 {
		group.Go(func() {
			l, r := s.Log(), rand.New(rand.NewPCG(uint64(i), 1))
			for time.Now().Before(end) {
				// A call that is not answered in time is not believed.
				lease, err := l.Lead(t.Context(), fmt.Sprint("owner-", i), 0, ttl)
				if err != nil {
					t.Error(err)
				}
				if err == nil && lease.Held {
					mu.Lock()
					reigns = append(reigns, reign{lease.Epoch, time.Now(), lease.Expires})
					mu.Unlock()
				}
				time.Sleep(time.Duration(r.Int64N(int64(2 * ttl))))
			}
		})
	}
	group.Wait()
	reigns = slices.DeleteFunc(reigns, func(r reign) bool { return r.till.Before(r.from) })
	for _, wrong := range overlaps(reigns) {
		t.Error(wrong)
	}
	if len(reigns) < 5 || reigns[len(reigns)-1].epoch == reigns[0].epoch {
		t.Errorf("%d reigns of epochs %d to %d: too few to say anything", len(reigns), reigns[0].epoch, reigns[len(reigns)-1].epoch)
	}
}
