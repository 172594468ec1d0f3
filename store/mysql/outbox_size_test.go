package mysql

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/internal/myserver"
)

func eventOfSize(id string, payload string) *settle.Event {
	return &settle.Event{ID: id, Type: "a", AggregateID: "k", Payload: []byte(payload), ContentType: "text/plain"}
}

func TestAnEventThatNoStatementCanHoldIsRefusedBeforeAnythingIsSent(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	s.server.packet = 64 << 10
	tx, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	large := eventOfSize("large", strings.Repeat(`"`, 40<<10))
	err = s.Append(t.Context(), tx, eventOfSize("before", "x"), large)
	if err == nil || !strings.Contains(err.Error(), "event large ") || !strings.Contains(err.Error(), "max_allowed_packet") {
		t.Errorf("it says %v", err)
	}
	if err := s.Append(t.Context(), tx, eventOfSize("fits", strings.Repeat("x", 40<<10)), eventOfSize("fits-2", strings.Repeat("x", 60<<10))); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	var ids string
	if err := s.db.QueryRow("SELECT GROUP_CONCAT(event_id ORDER BY id) FROM t_outbox_event").Scan(&ids); err != nil || ids != "fits,fits-2" {
		t.Errorf("stored are %s, %v", ids, err)
	}
}

func TestNoStatementOfEventsIsLongerThanThePacket(t *testing.T) {
	for _, packet := range []int{64 << 10, 1 << 20, 16 << 20} {
		s := &Store{server: server{packet: packet}}
		for _, size := range []int{0, 1, 1000, 20 << 10, 30 << 10, 900 << 10} {
			var events []*settle.Event
			for i := range 200 {
				events = append(events, eventOfSize(fmt.Sprint(i), strings.Repeat(`\`, size)))
			}
			sizes, err := s.chunks(events)
			if one := length(events[199]); one > packet-spare {
				if err == nil {
					t.Errorf("of %d bytes in a packet of %d: not refused", one, packet)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			done := 0
			for _, n := range sizes {
				long := 0
				for _, e := range events[done : done+n] {
					long += length(e)
				}
				if n == 0 || n > appendRows || long > packet-spare || n > 1 && long > appendBytes {
					t.Errorf("a statement has %d events of %d bytes, of %d, in a packet of %d", n, size, long, packet)
				}
				done += n
			}
			if done != len(events) {
				t.Errorf("%d of %d events are in statements", done, len(events))
			}
		}
	}
}

// A server that takes little at once and soon ends connections that say nothing,
// and transactions of every kind of driver.
func TestATightServerGivesNoProducerAnErrorButOfAnEventThatItCanNotHold(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("takes long: SETTLE_TEST_ALL=1 runs it")
	}
	own := myserver.Own(t)
	own.Exec("SET GLOBAL max_allowed_packet = 1048576", "SET GLOBAL wait_timeout = 2")
	at := own.Database("tight")
	s := OpenForTest(t, at, Config{})
	cfg, err := parseURL(at)
	if err != nil {
		t.Fatal(err)
	}
	plain := cfg.Clone()
	plain.InterpolateParams, plain.MaxAllowedPacket = false, 64<<20
	text := cfg.Clone()
	text.MaxAllowedPacket = 64 << 20
	n := 0
	for name, cfg := range map[string]*driver.Config{"its own": cfg, "binary": plain, "text": text} {
		db, err := pool(cfg, nil, 2, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if name == "its own" {
			db = s.DB()
		}
		for round := range 3 {
			tx, err := db.BeginTx(t.Context(), &readCommitted)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := s.Append(t.Context(), tx, eventOfSize("large", strings.Repeat(`"`, 600<<10))); err == nil || !strings.Contains(err.Error(), "max_allowed_packet") {
				t.Errorf("%s: an event that is too large: %v", name, err)
			}
			var many []*settle.Event
			for range 8 {
				n++
				many = append(many, eventOfSize(fmt.Sprint("e", n), strings.Repeat(`{"a":1}`, 60<<10)))
			}
			if err := s.Append(t.Context(), tx, many...); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := tx.Commit(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if round < 2 {
				time.Sleep(2500 * time.Millisecond) // longer than the server lets anybody be silent
			}
		}
	}
	var rows int
	if err := s.reader.QueryRow("SELECT count(*) FROM t_outbox_event").Scan(&rows); err != nil || rows != n {
		t.Errorf("%d rows are stored, want %d, %v", rows, n, err)
	}
}
