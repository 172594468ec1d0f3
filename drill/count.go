package drill

import (
	"context"
	"database/sql"
	"fmt"
)

const countOrders = `SELECT COUNT(*), COALESCE(SUM(status='COMPLETED'),0), COALESCE(SUM(status='CANCELLED'),0),
  COALESCE(SUM(status NOT IN ('COMPLETED','CANCELLED') AND NOT EXISTS (SELECT 1 FROM dead_letter d WHERE d.aggregate_id=order_id AND d.state='OPEN')),0),
  (SELECT COUNT(*) FROM client_request q WHERE q.refused AND NOT EXISTS (SELECT 1 FROM client_answer a WHERE a.request_key=q.request_key)) FROM orders`

const countCancelled = `SELECT CASE c.event_type WHEN 'inventory.reserve_failed' THEN 'stock' WHEN 'risk.rejected' THEN 'risk' WHEN 'payment.failed' THEN 'payment'
  WHEN 'order.payment_due' THEN 'time' WHEN 'fulfilment.failed' THEN 'shipping' ELSE 'customer' END AS kind, COUNT(*)
FROM outbox e LEFT JOIN outbox c ON c.event_id=e.causation_id WHERE e.event_type='order.cancelled' GROUP BY kind`

const countMoney = `SELECT COALESCE(SUM(amount_cents) FILTER (WHERE kind='capture'),0), COALESCE(SUM(amount_cents) FILTER (WHERE kind='refund'),0),
  (SELECT COALESCE(SUM(amount_cents),0) FROM orders WHERE status='COMPLETED') FROM outside_ledger`

const openLetters = `SELECT service, id, class, event_type, aggregate_id, reason FROM dead_letter WHERE state='OPEN' ORDER BY service, id`

const countEvents = `SELECT (SELECT COUNT(*) FROM outbox), (SELECT COUNT(*) FROM outbox WHERE status='SENT'),
  (SELECT COUNT(*)-COUNT(DISTINCT event_id) FROM broker_log WHERE event_id<>'')-(SELECT COUNT(*) FROM planted WHERE kind='duplicate')`

const countDeliveries = `SELECT COALESCE(SUM(status IN ('APPLIED','SUCCESS')),0), COALESCE(SUM(status='REJECTED'),0),
  COALESCE(SUM(MAX(attempts-1,0)),0)+(SELECT COALESCE(SUM(MAX(attempts-1,0)),0) FROM dead_letter WHERE state<>'OPEN'), (SELECT COUNT(*) FROM dead_letter), (SELECT COUNT(*) FROM dead_letter WHERE state IN ('OPEN','REPLAYING','COMPENSATING')) FROM inbox`

// A timer counts from when it is due.
const commitToPublished = `SELECT sent_at-MAX(created_at, COALESCE(not_before, 0)) AS d FROM outbox WHERE sent_at IS NOT NULL`

const orderToCompleted = `SELECT updated_at-created_at AS d FROM orders WHERE status='COMPLETED'`

// Count fills r with what the facts tell: orders, events, deliveries (but for
// those that only the consumers know), money, latencies and open dead letters.
func (f *Facts) Count(ctx context.Context, r *Report) error {
	o, e, d, m := &r.Orders, &r.Events, &r.Deliveries, &r.Money
	for _, q := range []struct {
		text string
		into []any
	}{
		{countOrders, []any{&o.Accepted, &o.Completed, &o.Cancelled, &o.Unsettled, &o.Refused}},
		{countEvents, []any{&e.Appended, &e.Published, &e.PublishedAgain}},
		{countDeliveries, []any{&d.Applied, &d.Rejected, &d.Retried, &d.Dead, &r.DeadLettersOpen}},
		{countMoney, []any{&m.Captured, &m.Refunded, &m.Completed}},
	} {
		if err := f.db.QueryRowContext(ctx, q.text).Scan(q.into...); err != nil {
			return fmt.Errorf("count facts: %w", err)
		}
	}
	m.Net = m.Captured - m.Refunded
	if err := f.countCancelled(ctx, o); err != nil {
		return fmt.Errorf("count cancelled orders: %w", err)
	}
	var err error
	if r.Letters, err = f.letters(ctx); err != nil {
		return fmt.Errorf("read open dead letters: %w", err)
	}
	if r.Latency.CommitToPublished, err = f.quantiles(ctx, commitToPublished); err != nil {
		return err
	}
	r.Latency.OrderToCompleted, err = f.quantiles(ctx, orderToCompleted)
	return err
}

func (f *Facts) countCancelled(ctx context.Context, o *OrderCounts) error {
	o.CancelledFor = map[string]int64{}
	return each(ctx, f.db, countCancelled, func(rows *sql.Rows) error {
		var kind string
		var n int64
		if err := rows.Scan(&kind, &n); err != nil {
			return err
		}
		o.CancelledFor[kind] = n
		return nil
	})
}

func (f *Facts) letters(ctx context.Context) ([]Letter, error) {
	all := []Letter{}
	err := each(ctx, f.db, openLetters, func(rows *sql.Rows) error {
		var l Letter
		var number int64
		if err := rows.Scan(&l.Service, &number, &l.Class, &l.EventType, &l.Key, &l.Reason); err != nil {
			return err
		}
		l.ID = letterID(l.Service, number)
		all = append(all, l)
		return nil
	})
	return all, err
}

// quantiles ranks the microseconds d that text selects.
func (f *Facts) quantiles(ctx context.Context, text string) (Quantiles, error) {
	rows, err := f.db.QueryContext(ctx, text+" ORDER BY d")
	if err != nil {
		return Quantiles{}, fmt.Errorf("rank latencies: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var all []int64
	for rows.Next() {
		var d int64
		if err := rows.Scan(&d); err != nil {
			return Quantiles{}, fmt.Errorf("rank latencies: %w", err)
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		return Quantiles{}, rows.Err()
	}
	at := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))]) / 1e6 }
	return Quantiles{P50: at(0.50), P99: at(0.99)}, rows.Err()
}
