package shop

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// act is one thing that happens to an order of a script.
type act struct {
	order   int
	input   string // an event, or the compensation of one
	fresh   bool   // with an event id of its own, not the one it came with before
	weather weather
	crash   bool // after the handler, before the commit
}

// weather is how an outside system answers.
type weather int

const (
	fair weather = iota
	away         // nothing is tried
	lost         // the work is done, its answer lost
)

// answer is what an outside call ends with.
func (w weather) answer() error {
	if w == lost {
		return errors.New("the answer was lost")
	}
	return nil
}

func (w weather) away() error {
	if w == away {
		return settle.Unavailable(errors.New("the system is away"))
	}
	return nil
}

// scripts draws lists of acts upon a number of orders.
func scripts(orders int, inputs ...string) *rapid.Generator[[]act] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) act {
		return act{
			order:   rapid.IntRange(0, orders-1).Draw(t, "order"),
			input:   rapid.SampledFrom(inputs).Draw(t, "input"),
			fresh:   rapid.Bool().Draw(t, "fresh"),
			weather: rapid.SampledFrom([]weather{fair, fair, fair, away, lost}).Draw(t, "weather"),
			crash:   rapid.IntRange(0, 7).Draw(t, "crash") == 7,
		}
	}), 1, 40)
}

// stage plays scripts to one service.
type stage struct {
	db        *dial.Database
	reactions []reaction
	orders    []orderFacts
	weather   *weather
	calls     *int   // outside
	begin     func() // empties the outside systems' ledgers
	// wrong says what of an order is not as it must be after the inputs that
	// were done, in their order.
	wrong func(ctx context.Context, tx *sql.Tx, order orderFacts, done []string) error
}

// performance is one script being played, in one transaction.
type performance struct {
	*stage
	tx    *sql.Tx
	ids   map[string]string
	done  [][]string
	stuck []string // what has failed of each order: tried again, or given up, before anything else
}

// play plays a script to the end and returns the first thing that is wrong.
// All that it writes is rolled back.
func (s *stage) play(ctx context.Context, script []act) error {
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	s.begin()
	p := &performance{stage: s, tx: tx, ids: map[string]string{}, done: make([][]string, len(s.orders)), stuck: make([]string, len(s.orders))}
	for i, a := range script {
		if err := p.perform(ctx, a); err != nil {
			return fmt.Errorf("act %d, %+v: %w", i, a, err)
		}
	}
	for order, stuck := range p.stuck {
		if stuck == "" {
			continue
		}
		if err := p.perform(ctx, act{order: order, input: stuck}); err != nil {
			return fmt.Errorf("at last %s of order %d: %w", stuck, order, err)
		}
	}
	return nil
}

// perform plays one act: a consumer's transaction, or a compensation's.
func (p *performance) perform(ctx context.Context, a act) error {
	if stuck := p.stuck[a.order]; stuck != "" && a.input != lifecycle.Compensation(stuck) {
		a.input, a.fresh = stuck, false
	}
	*p.weather = a.weather
	order, before, asked := p.orders[a.order], p.done[a.order], *p.calls
	failed, err := p.try(ctx, a)
	switch {
	case err != nil:
		return err
	case failed != nil && a.weather == fair:
		return failed
	case failed != nil || a.crash:
		p.stuck[a.order] = a.input
		return nil
	}
	p.done[a.order], p.stuck[a.order] = append(slices.Clone(before), a.input), ""
	if err := p.wrong(ctx, p.tx, order, p.done[a.order]); err != nil {
		return err
	}
	if *p.calls > asked && p.wrong(ctx, p.tx, order, before) == nil {
		return errors.New("an outside system was asked although nothing changed")
	}
	return nil
}

// try runs the reaction to a, and keeps what it wrote if it did not fail.
func (p *performance) try(ctx context.Context, a act) (failed, err error) {
	e, run, err := p.cast(a)
	if err != nil {
		return nil, err
	}
	if _, err := p.tx.ExecContext(ctx, `SAVEPOINT act`); err != nil {
		return nil, err
	}
	failed = run(ctx, p.tx, e)
	end := `RELEASE act`
	if failed != nil || a.crash {
		end = `ROLLBACK TO act`
	}
	_, err = p.tx.ExecContext(ctx, end)
	return failed, err
}

func eventOf(input string) string { return strings.TrimPrefix(input, lifecycle.Compensation("")) }

// cast finds the event and the reaction of an act.
func (p *performance) cast(a act) (*settle.Event, consumer.Handler[*sql.Tx], error) {
	order, kind := p.orders[a.order], eventOf(a.input)
	payload, err := json.Marshal(order)
	if err != nil {
		return nil, nil, err
	}
	key := fmt.Sprint(a.order, kind)
	if p.ids[key] == "" || a.fresh {
		p.ids[key] = settle.NewID()
	}
	e := &settle.Event{ID: p.ids[key], Type: kind, AggregateID: order.OrderID, BizKey: order.CustomerID, TraceID: "trace", Payload: payload}
	i := slices.IndexFunc(p.reactions, func(r reaction) bool { return r.on == kind })
	if i < 0 {
		return nil, nil, fmt.Errorf("nobody handles %s", kind)
	}
	if lifecycle.IsEvent(a.input) {
		return e, p.reactions[i].do, nil
	}
	return e, p.reactions[i].undo, nil
}

// check plays, for each order, all short scripts in fair weather, in which
// every input comes early, late and again; then long ones that are drawn. None
// may end in anything wrong.
func (s *stage) check(t *testing.T, inputs []string) {
	t.Helper()
	for order := range s.orders {
		for script := range short(order, inputs) {
			if err := s.play(t.Context(), script); err != nil {
				t.Fatalf("order %d: %v", order, err)
			}
		}
	}
	drawn := scripts(len(s.orders), inputs...)
	rapid.Check(t, func(rt *rapid.T) {
		if err := s.play(t.Context(), drawn.Draw(rt, "script")); err != nil {
			rt.Fatal(err)
		}
	})
}

// short yields every script of four inputs for one order.
func short(order int, inputs []string) iter.Seq[[]act] {
	const length = 4
	return func(yield func([]act) bool) {
		which := make([]int, length+1)
		for which[length] == 0 {
			script := make([]act, length)
			for i := range script {
				script[i] = act{order: order, input: inputs[which[i]], fresh: i%2 == 1}
			}
			if !yield(script) {
				return
			}
			for i := range which {
				if which[i]++; which[i] < len(inputs) || i == length {
					break
				}
				which[i] = 0
			}
		}
	}
}

// notices plays drawn scripts until one finds something wrong, and returns
// that.
func (s *stage) notices(t *testing.T, inputs []string) error {
	t.Helper()
	drawn := scripts(len(s.orders), inputs...)
	for seed := range 300 {
		if err := s.play(t.Context(), drawn.Example(seed)); err != nil {
			return err
		}
	}
	return nil
}

// appended lists the numbered events of an order as "1 type", in order.
func appended(ctx context.Context, tx *sql.Tx, orderID string) (events []string, last []byte, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT aggregate_seq || ' ' || event_type, payload FROM t_outbox_event WHERE aggregate_id = $1 AND aggregate_seq > 0 ORDER BY id`, orderID)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var event string
		if err := rows.Scan(&event, &last); err != nil {
			return nil, nil, err
		}
		events = append(events, event)
	}
	return events, last, rows.Err()
}

// mustHave compares what was appended for an order with the event types that
// it must be.
func mustHave(ctx context.Context, tx *sql.Tx, orderID string, types ...string) error {
	events, _, err := appended(ctx, tx, orderID)
	if err != nil {
		return err
	}
	var want []string
	for i, kind := range types {
		want = append(want, fmt.Sprint(i+1, " ", kind))
	}
	if !slices.Equal(events, want) {
		return fmt.Errorf("its events are %q; want %q", events, want)
	}
	return nil
}

// noon is when everything in a script happens.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// baseIn opens a service's database in a directory of its own.
func baseIn(t testing.TB, name string, outside outsiders) base {
	t.Helper()
	db, err := openService(t.Context(), t.TempDir(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return base{db: db, now: func() time.Time { return noon }, rules: Rules{}.withDefaults(), outside: outside}
}

// instead returns reactions with what one event does done otherwise.
func instead(all []reaction, on string, change func(do consumer.Handler[*sql.Tx]) consumer.Handler[*sql.Tx]) []reaction {
	all = slices.Clone(all)
	for i, r := range all {
		if r.on == on {
			all[i].do = change(r.do)
		}
	}
	return all
}

// withRow returns a machine with another row in place of the one for the same
// state, input and condition.
func withRow(m lifecycle.Machine, row lifecycle.Transition) lifecycle.Machine {
	m.Rows = slices.Clone(m.Rows)
	for i, r := range m.Rows {
		if r.From == row.From && r.On == row.On && r.When == row.When {
			m.Rows[i] = row
		}
	}
	return m
}

// says runs one transaction and compares the events that it appends for an
// order, as "type cause trace customer payload", with those that it must.
func says(t *testing.T, db *dial.Database, orderID string, do func(tx *sql.Tx) error, want ...string) {
	t.Helper()
	before := number(t, db.Reader, `SELECT COALESCE(MAX(id), 0) FROM t_outbox_event`)
	if err := inTx(t.Context(), db, do); err != nil {
		t.Fatal(err)
	}
	rows, err := db.Reader.QueryContext(t.Context(), `SELECT CONCAT_WS(' ', event_type, causation_id, trace_id, biz_key, CAST(payload AS TEXT)) FROM t_outbox_event WHERE aggregate_id = $1 AND id > $2 ORDER BY id`, orderID, before)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var got []string
	for rows.Next() {
		var event string
		if err := rows.Scan(&event); err != nil {
			t.Fatal(err)
		}
		got = append(got, event)
	}
	if err := rows.Err(); err != nil || !slices.Equal(got, want) {
		t.Errorf("appended %q, %v; want %q", got, err, want)
	}
}
