package drill

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// maxTrails is how many ways of orders a page tells.
const maxTrails = 3

// trail is the way of one order, in the order of time.
type trail struct {
	lesson
	Order  string
	Status string
	Amount Cents
	At     float64 // when it was placed, seconds since the drill began
	Took   float64 // seconds until its state was final
	Lines  []trailLine
}

// lesson is one reason to tell the way of an order: what it shows, why that is
// worth knowing, and a query for the orders that show it best.
type lesson struct {
	Title, Why string
	query      string
}

// lessons, the most instructive first.
var lessons = []lesson{
	{"Repaired by a replay", "No attempt could handle an event, so it became a dead letter that a person could see. When the cause was cured and the letter replayed, the event was handled once, as if nothing had happened.", `
SELECT o.order_id FROM dead_letter d JOIN outbox e ON e.event_id=d.event_id JOIN orders o ON o.order_id=e.aggregate_id
 WHERE d.state='REPLAYED' ORDER BY o.status='COMPLETED' DESC, d.closed_at-d.opened_at DESC LIMIT :most`},
	{"Money that came too late went back", "The order was cancelled while its payment was under way. Both were true at once, in two services; in the end they agree, and nobody has paid for nothing.", `
SELECT o.order_id FROM outbox e JOIN orders o ON o.order_id=e.aggregate_id JOIN outbox c ON c.aggregate_type='order' AND c.aggregate_id=o.order_id AND c.event_type='order.cancelled'
 WHERE e.event_type='payment.refunded' ORDER BY e.created_at-c.created_at DESC LIMIT :most`},
	{"Retried until it worked", "What a handler needed was away. It was tried again, later each time, and nothing of the same order overtook it; in the end it was applied once.", `
SELECT o.order_id FROM inbox i JOIN outbox e ON e.event_id=i.event_id JOIN orders o ON o.order_id=e.aggregate_id LEFT JOIN dead_letter d ON d.event_id=e.event_id
 WHERE i.status IN ('APPLIED','SUCCESS') AND i.attempts>1 AND d.event_id IS NULL ORDER BY i.attempts DESC, i.processed_at-e.created_at DESC LIMIT :most`},
	{"Sent twice, applied once", "A process was killed, or an acknowledgement was lost, after the broker had stored the event; so it was sent again. Deliveries may repeat, effects do not.", `
SELECT o.order_id FROM broker_log b JOIN outbox e ON e.event_id=b.event_id JOIN orders o ON o.order_id=e.aggregate_id
 LEFT JOIN planted p ON p.topic=b.topic AND p.broker_partition=b.broker_partition AND p.broker_offset=b.broker_offset
 WHERE p.kind IS NULL GROUP BY b.event_id HAVING COUNT(*)>1 ORDER BY COUNT(*) DESC, e.created_at LIMIT :most`},
	{"Cancelled, and nothing is left of it", "The order could not go on. Every service that had done its part already took it back, told by nothing but events.", `
SELECT o.order_id FROM orders o JOIN outbox e ON e.aggregate_id=o.order_id AND e.aggregate_type<>'order'
 WHERE o.status='CANCELLED' GROUP BY o.order_id ORDER BY COUNT(*) DESC, o.updated_at-o.created_at DESC LIMIT :most`},
	{"The slowest order", "No order took longer than this one. What it waited for stands between its lines.", `
SELECT order_id FROM orders WHERE status='COMPLETED' ORDER BY updated_at-created_at DESC LIMIT :most`},
}

// trails tells the ways of the orders that show the most, each another one.
func (f *Facts) trails(ctx context.Context, r *Report, began int64) ([]trail, error) {
	var all []trail
	for _, l := range lessons {
		if len(all) == maxTrails {
			break
		}
		ids, err := f.texts(ctx, l.query, maxTrails)
		if err != nil {
			return nil, fmt.Errorf("choose trails: %w", err)
		}
		i := slices.IndexFunc(ids, func(id string) bool {
			return !slices.ContainsFunc(all, func(t trail) bool { return t.Order == id })
		})
		if i < 0 {
			continue
		}
		t, err := f.trail(ctx, ids[i], began, r.Marks)
		if err != nil {
			return nil, fmt.Errorf("read trail of %s: %w", ids[i], err)
		}
		t.lesson = l
		all = append(all, t)
	}
	return all, nil
}

const readOrder = `SELECT status, amount_cents, created_at, updated_at FROM orders WHERE order_id=:order`

func (f *Facts) trail(ctx context.Context, id string, began int64, marks []Mark) (trail, error) {
	t := trail{Order: id}
	var created, updated int64
	if err := f.db.QueryRowContext(ctx, readOrder, sql.Named("order", id)).Scan(&t.Status, &t.Amount, &created, &updated); err != nil {
		return t, err
	}
	t.At, t.Took = float64(created-began)/1e6, float64(updated-created)/1e6
	s, err := f.steps(ctx, id)
	if err != nil {
		return t, err
	}
	t.Lines = s.lines(created)
	t.Lines = append(t.Lines, meanwhile(marks, t.At, t.Lines)...)
	slices.SortStableFunc(t.Lines, func(a, b trailLine) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	return t, nil
}

// maxMeanwhile is how many faults a trail tells one by one.
const maxMeanwhile = 6

// meanwhile returns the faults that hit while a trail that began at a second
// of the drill was under way; all in one line if they are many.
func meanwhile(marks []Mark, began float64, lines []trailLine) []trailLine {
	end := 0.0
	for _, l := range lines {
		end = max(end, l.At)
	}
	var hits []trailLine
	times := map[string]int{}
	var names []string
	for _, m := range marks {
		if m.Name == MarkRepair || m.Until < began || m.At > began+end {
			continue
		}
		l := trailLine{At: max(m.At-began, 0), Kind: lineFault, Who: "the drill", What: m.Name}
		if m.Until > m.At {
			l.Note = "for " + span(m.Until-m.At)
		}
		if times[m.Name]++; times[m.Name] == 1 {
			names = append(names, m.Name)
		}
		hits = append(hits, l)
	}
	if len(hits) <= maxMeanwhile {
		return hits
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d×", name, times[name])
	}
	return []trailLine{{At: hits[0].At, Kind: lineFault, Who: "the drill", What: fmt.Sprintf("%d faults hit while this order was under way", len(hits)), Note: strings.Join(names, ", ")}}
}

// texts runs a query of one column of text, for at most most rows.
func (f *Facts) texts(ctx context.Context, text string, most int) ([]string, error) {
	var all []string
	err := each(ctx, f.db, text, func(rows *sql.Rows) error {
		var s string
		err := rows.Scan(&s)
		all = append(all, s)
		return err
	}, sql.Named("most", most))
	return all, err
}
