package adopted

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
)

// classic makes a service with an outbox, in which some words stand for others.
func classic(t testing.TB, open Open, other ...string) *Service {
	t.Helper()
	s := open(t)
	for _, statement := range s.Outbox {
		s.exec(strings.NewReplacer(other...).Replace(statement))
	}
	return s
}

// withoutIndex makes one with no index that begins with the status.
func withoutIndex(t testing.TB, open Open) *Service {
	t.Helper()
	s := open(t)
	for _, statement := range s.OutboxWithoutIndex {
		s.exec(statement)
	}
	return s
}

func (s *Service) table() string { return s.Schema + ".t_outbox_event" }

const classicRow = `('e-%[1]d', 'order', 'o-%[2]d', 'order.created', '{"eventId":"e-%[1]d","eventType":"order.created","aggregateType":"order","aggregateId":"o-%[2]d","bizKey":"b-%[1]d","occurredAt":"2026-01-02T03:04:05Z","traceId":"t-%[1]d","version":1,"payload":{"n":%[1]d,"amount":199.00}}', '{"source": "order-service"}', '%[3]s')`

// insert stores events first to last of ten keys, as the service does.
func (s *Service) insert(first, last int, status string) {
	s.Helper()
	for first <= last {
		var rows []string
		for ; first <= last && len(rows) < 1000; first++ {
			rows = append(rows, fmt.Sprintf(classicRow, first, first%10, status))
		}
		s.run(`INSERT INTO t_outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, headers, status) VALUES ` + strings.Join(rows, ", "))
	}
}

// insertAt stores a row whose id its program has chosen.
func insertAt(id int) string {
	return fmt.Sprintf(`INSERT INTO t_outbox_event (id, event_id, aggregate_type, aggregate_id, event_type, payload, status)
VALUES (%[1]d, 'i-%[1]d', 'order', 'o-%[1]d', 'order.created', '{"eventId": "i-%[1]d", "eventType": "order.created", "aggregateId": "o-%[1]d"}', 'PENDING')`, id)
}

// run runs a statement as it stands.
func (s *Service) run(statement string) {
	s.Helper()
	if _, err := s.DB.ExecContext(context.Background(), statement); err != nil {
		s.Fatalf("%v\n%s", err, statement)
	}
}

func (s *Service) adopt(cfg migrate.AdoptConfig) migrate.AdoptPlan {
	s.Helper()
	p, err := s.tryAdopt(cfg)
	if err != nil {
		s.Fatal(err)
	}
	return p
}

func (s *Service) tryAdopt(cfg migrate.AdoptConfig) (migrate.AdoptPlan, error) {
	cfg.Table = s.table()
	return s.Adopt(context.Background(), cfg)
}

// statuses counts the rows of each status.
func (s *Service) statuses() string {
	s.Helper()
	rows, err := s.DB.QueryContext(context.Background(), `SELECT status, count(*) FROM t_outbox_event GROUP BY status`)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var status string
		var n int
		if err := rows.Scan(&status, &n); err != nil {
			s.Fatal(err)
		}
		all = append(all, fmt.Sprint(status, " ", n))
	}
	if err := rows.Err(); err != nil {
		s.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (s *Service) becomes(want string) {
	s.Helper()
	eventually(s, "the statuses become "+want, func() (string, bool) {
		got := s.statuses()
		return got, got == want
	})
}

// relaying is a relay of Settle's on the adopted table.
type relaying struct {
	testing.TB
	broker *memory.Broker
	store  Store
	stop   func()
}

func (s *Service) relay(b *memory.Broker, cfg relay.Config) *relaying {
	s.Helper()
	r := &relaying{TB: s, broker: b, store: s.Open(Options{})}
	if cfg.SweepEvery == 0 {
		cfg.SweepEvery = 100 * time.Millisecond
	}
	if cfg.HoleAge == 0 {
		cfg.HoleAge = 50 * time.Millisecond
	}
	stop := start(s, r.store.Log, b, cfg)
	stopped := false
	r.stop = func() {
		if !stopped {
			stopped = true
			stop()
		}
	}
	s.Cleanup(r.stop)
	return r
}

// start runs a relay until it is stopped.
func start(t testing.TB, log relay.Store, b settle.Publisher, cfg relay.Config) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	run, done := relay.New(log, b, cfg), make(chan error, 1)
	go func() { done <- run.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("relay: %v", err)
		}
	}
}

func newMemory(t testing.TB) *memory.Broker {
	b := memory.New(memory.Config{})
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func (r *relaying) sends(n int) []settle.Record {
	r.Helper()
	eventually(r, fmt.Sprintf("%d events are sent", n), func() (string, bool) {
		sent := len(r.broker.Log(settle.DefaultTopic))
		return fmt.Sprint(sent), sent >= n
	})
	return r.broker.Log(settle.DefaultTopic)
}

// sent are the event ids that a broker has, in order.
func sent(b *memory.Broker) string {
	var all []string
	for _, m := range b.Log(settle.DefaultTopic) {
		all = append(all, m.Headers[settle.HeaderEventID])
	}
	return strings.Join(all, " ")
}

// foreignRows is how many rows the relay takes for another's work.
func (r *relaying) foreignRows() (n int64, err error) {
	err = r.store.DB.QueryRowContext(context.Background(), `SELECT foreign_rows FROM settle_adoption`).Scan(&n)
	return n, err
}

func (r *relaying) notices(rows int64) {
	r.Helper()
	eventually(r, "another relay is noticed", func() (string, bool) {
		n, err := r.foreignRows()
		return fmt.Sprint(n, err), n == rows || rows < 0 && n > 0
	})
}

func (r *relaying) noticesNobody() {
	r.Helper()
	if n, err := r.foreignRows(); n != 0 || err != nil {
		r.Errorf("another relay was seen where there is none: %d, %v", n, err)
	}
}

// column returns the texts of a query on Settle's tables.
func (r *relaying) column(query string) (all []string) {
	r.Helper()
	rows, err := r.store.DB.QueryContext(context.Background(), query)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var text sql.NullString
		if err := rows.Scan(&text); err != nil {
			r.Fatal(err)
		}
		all = append(all, text.String)
	}
	if err := rows.Err(); err != nil {
		r.Fatal(err)
	}
	return all
}

// OnlyWhatWaits checks that exactly the rows that wait are sent, in order, and
// marked.
func OnlyWhatWaits(t *testing.T, open Open, before, waits int) {
	s := classic(t, open)
	s.insert(1, before, "SENT")
	s.insert(before+1, before+waits, "PENDING")
	p := s.adopt(migrate.AdoptConfig{})
	if p.Send != int64(waits) || p.Leave != int64(before) || p.Payload != migrate.PayloadEnvelope || p.HighestID < int64(before+waits) {
		t.Errorf("the plan is %+v", p)
	}
	r := s.relay(newMemory(t), relay.Config{})
	r.sends(waits)
	s.insert(before+waits+1, before+waits+100, "PENDING")
	s.becomes(fmt.Sprint("SENT ", before+waits+100))
	r.stop()
	log := r.broker.Log(settle.DefaultTopic)
	next := map[string]int{}
	for i, m := range log {
		var id int
		if _, err := fmt.Sscanf(m.Event.ID, "e-%d", &id); err != nil || id <= next[m.Event.AggregateID] {
			t.Fatalf("record %d is %s, behind %d of its key", i, m.Event.ID, next[m.Event.AggregateID])
		}
		next[m.Event.AggregateID] = id
	}
	if len(log) != waits+100 {
		t.Errorf("%d events were sent, want %d", len(log), waits+100)
	}
}
