package postgres_test

import (
	"context"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/postgres"
)

// people does to the outbox what people do, by plain SQL: what the relay has to
// get along with, whoever writes it.
type people struct {
	govern.Store
	s *postgres.Store
}

func (p people) exec(ctx context.Context, query string, args ...any) error {
	_, err := p.s.DB().ExecContext(ctx, query, args...)
	return err
}

func (p people) Pause(ctx context.Context, a govern.Act, kind, name string) error {
	return p.exec(ctx, "INSERT INTO settle_control VALUES ($1, $2, $3, now())", kind, name, a.By)
}

func (p people) Resume(ctx context.Context, _ govern.Act, kind, name string) error {
	return p.exec(ctx, "DELETE FROM settle_control WHERE kind = $1 AND name = $2", kind, name)
}

func (p people) Skip(ctx context.Context, a govern.Act, eventID string) error {
	return p.exec(ctx, "INSERT INTO settle_skip VALUES ($1, $2, now())", eventID, a.By)
}

func (p people) DeadLetters(ctx context.Context, _ govern.Filter) ([]govern.DeadLetter, error) {
	rows, err := p.s.Reader().QueryContext(ctx, `SELECT d.id, d.consumer_group, d.event_id, d.event_type, d.aggregate_id, d.class, d.reason, d.attempts, d.state, d.payload,
 (SELECT count(*) - 1 FROM t_outbox_parked p WHERE p.destination = d.destination AND p.aggregate_id = d.aggregate_id) FROM t_dead_letter d ORDER BY d.id`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []govern.DeadLetter
	for rows.Next() {
		var d govern.DeadLetter
		if err := rows.Scan(&d.ID, &d.Group, &d.EventID, &d.EventType, &d.Key, &d.Class, &d.Reason, &d.Attempts, &d.State, &d.Payload, &d.Behind); err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, rows.Err()
}

func (p people) DeadLetter(ctx context.Context, _ int64) (govern.DeadLetter, error) {
	all, err := p.DeadLetters(ctx, govern.Filter{})
	if err != nil {
		return govern.DeadLetter{}, err
	}
	return all[0], nil
}

func (p people) Replay(ctx context.Context, a govern.Act, _ govern.ReplayOptions, ids ...int64) ([]govern.Outcome, error) {
	return []govern.Outcome{{ID: ids[0], Result: "done"}}, p.exec(ctx, `WITH d AS (UPDATE t_dead_letter SET state = 'REPLAYING', acted_by = $2 WHERE id = $1 RETURNING outbox_id, destination),
 v AS (UPDATE settle_control_version SET version = version + 1)
UPDATE t_outbox_parked p SET dead = false, attempts = 0, next_at = now() - interval '1 day' FROM d WHERE p.id = d.outbox_id AND p.destination = d.destination`, ids[0], a.By)
}

func (p people) Discard(ctx context.Context, a govern.Act, ids ...int64) ([]govern.Outcome, error) {
	return []govern.Outcome{{ID: ids[0], Result: "done"}}, p.exec(ctx, `WITH d AS (UPDATE t_dead_letter SET state = 'DISCARDED', closed_by = $2 WHERE id = $1 RETURNING outbox_id, destination),
 v AS (UPDATE settle_control_version SET version = version + 1)
DELETE FROM t_outbox_parked p USING d WHERE p.id = d.outbox_id AND p.destination = d.destination`, ids[0], a.By)
}
