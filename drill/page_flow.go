package drill

import (
	"context"
	"database/sql"
	"fmt"
)

// maxFlow bounds the kinds of flow that are drawn, the largest of them.
const maxFlow = 120

// flow is what went between services: which emitted how many events of a
// type, and which group applied how many of them.
type flow struct {
	Emitted []stream `json:"emitted"`
	Applied []stream `json:"applied"`
}

// stream is the events of a type from or to a service. Rate is the mean over
// the whole drill, per second.
type stream struct {
	Service string  `json:"service"`
	Event   string  `json:"event"`
	Count   int64   `json:"count"`
	Rate    float64 `json:"rate"`
}

const countEmitted = `SELECT service, event_type, COUNT(*) AS n FROM outbox GROUP BY service, event_type ORDER BY n DESC, service, event_type LIMIT :most`

const countApplied = `SELECT i.consumer, e.event_type, COUNT(*) AS n FROM inbox i JOIN outbox e ON e.event_id=i.event_id
  WHERE i.status IN ('APPLIED','SUCCESS') GROUP BY i.consumer, e.event_type ORDER BY n DESC, i.consumer, e.event_type LIMIT :most`

func (f *Facts) flow(ctx context.Context, duration float64) (flow, error) {
	var all flow
	var err error
	if all.Emitted, err = f.streams(ctx, countEmitted, duration); err != nil {
		return all, err
	}
	all.Applied, err = f.streams(ctx, countApplied, duration)
	return all, err
}

func (f *Facts) streams(ctx context.Context, text string, duration float64) ([]stream, error) {
	var all []stream
	err := each(ctx, f.db, text, func(rows *sql.Rows) error {
		var s stream
		if err := rows.Scan(&s.Service, &s.Event, &s.Count); err != nil {
			return err
		}
		s.Service, s.Event = plain(s.Service), plain(s.Event)
		s.Rate = float64(s.Count) / max(duration, 1e-3)
		all = append(all, s)
		return nil
	}, sql.Named("most", maxFlow))
	if err != nil {
		return nil, fmt.Errorf("count events by service: %w", err)
	}
	return all, nil
}
