package drill

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// Events by which a watch counts orders: each order emits each at most once.
const (
	orderCreated   = "order.created"
	orderCompleted = "order.completed"
	orderCancelled = "order.cancelled"
)

// Watch tells how far a system is by the databases of its services. It
// remembers what it has counted, so that asking again costs what is new. Its
// methods may be called from several goroutines.
type Watch struct {
	mu    sync.Mutex
	sides []*side
}

// side is what a watch remembers of one service.
type side struct {
	service *Service
	handles map[string]bool

	recorded int64           // highest number of the consume log that was counted
	done     int64           // events of types that it handles, dealt with
	pending  map[string]bool // events in the log that are not: true for those that an open dead letter holds
	emitted  map[string]int64
	read     int64 // highest id of the outbox that was counted
}

// NewWatch watches services, the order service first; handles are the event
// types that each service's group handles, by the service's name.
func NewWatch(services []*Service, handles map[string][]string) *Watch {
	w := &Watch{}
	for _, s := range services {
		side := &side{service: s, handles: map[string]bool{}, pending: map[string]bool{}, emitted: map[string]int64{}}
		for _, eventType := range handles[s.name] {
			side.handles[eventType] = true
		}
		w.sides = append(w.sides, side)
	}
	return w
}

// State tells how far the system is. What was consumed is read before what was
// emitted: a state in which nothing moves was true when the last consume log
// was read, and only a timer, a client or a person can have moved anything
// since.
func (w *Watch) State(ctx context.Context) (State, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var st State
	for _, s := range w.sides {
		if err := s.consumed(ctx, &st); err != nil {
			return st, fmt.Errorf("watch %s: %w", s.service.name, err)
		}
	}
	timers := map[string]int64{}
	for _, s := range w.sides {
		if err := s.emitting(ctx, &st, timers); err != nil {
			return st, fmt.Errorf("watch %s: %w", s.service.name, err)
		}
	}
	for _, s := range w.sides {
		st.Behind -= s.done
		for _, held := range s.pending {
			if held {
				st.Behind--
			}
		}
		for eventType := range s.handles {
			for _, from := range w.sides {
				st.Behind += from.emitted[eventType]
			}
			st.Behind -= timers[eventType]
		}
	}
	orders := w.sides[0].emitted
	st.Accepted, st.Completed, st.Cancelled = orders[orderCreated], orders[orderCompleted], orders[orderCancelled]
	return st, nil
}

// Letters returns the dead letters of all services that wait for a person.
func (w *Watch) Letters(ctx context.Context) ([]Letter, error) {
	var all []Letter
	for _, s := range w.sides {
		letters, err := s.service.Letters(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, letters...)
	}
	return all, nil
}

// consumed reads, in one snapshot, what the service's group has dealt with
// since it was last asked, and its dead letters.
func (s *side) consumed(ctx context.Context, st *State) error {
	tx, err := s.service.db.BeginTx(ctx, s.service.snapshot)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var open, replaying, last int64
	if err := tx.QueryRowContext(ctx, s.service.queries["dead"]).Scan(&open, &replaying, &last); err != nil {
		return err
	}
	st.DeadOpen += open
	st.Replaying += replaying
	after, group := sql.Named("after", s.recorded), sql.Named("group", s.service.name)
	var done int64
	err = s.service.each(ctx, tx, "recorded", func(rows *sql.Rows) error {
		var eventType string
		var n int64
		if err := rows.Scan(&eventType, &n); err != nil {
			return err
		}
		if s.handles[eventType] {
			done += n
		}
		return nil
	}, after, group)
	if err != nil {
		return err
	}
	pending, discarded, err := s.waiting(ctx, tx, after, group)
	if err != nil {
		return err
	}
	s.recorded, s.pending = last, pending
	if s.service.anew {
		s.done = 0
	}
	s.done += done + discarded
	return nil
}

// waiting finds the events that wait in the log. Those that waited before may
// be done now: with a new number, which "recorded" has counted, or, when a
// person discarded them, under their old one.
func (s *side) waiting(ctx context.Context, tx *sql.Tx, after, group sql.NamedArg) (pending map[string]bool, discarded int64, err error) {
	known := make([]string, 0, len(s.pending))
	for id := range s.pending {
		known = append(known, id)
	}
	list, err := json.Marshal(known)
	if err != nil {
		return nil, 0, err
	}
	pending = map[string]bool{}
	err = s.service.each(ctx, tx, "pending", func(rows *sql.Rows) error {
		var id, eventType string
		var number int64
		var waits, held bool
		if err := rows.Scan(&id, &eventType, &number, &waits, &held); err != nil {
			return err
		}
		switch {
		case !s.handles[eventType]:
		case waits:
			pending[id] = held
		case number <= s.recorded:
			discarded++
		}
		return nil
	}, after, group, sql.Named("known", string(list)))
	return pending, discarded, err
}

// emitting reads what the service has emitted since it was last asked, and
// what of all is not published.
func (s *side) emitting(ctx context.Context, st *State, timers map[string]int64) error {
	fresh, read := map[string]int64{}, s.read
	err := s.service.each(ctx, s.service.db, "emitted", func(rows *sql.Rows) error {
		var eventType string
		var n, last int64
		if err := rows.Scan(&eventType, &n, &last); err != nil {
			return err
		}
		fresh[eventType] = n
		read = max(read, last)
		return nil
	}, sql.Named("after", s.read))
	if err != nil {
		return err
	}
	if s.service.anew {
		clear(s.emitted)
		read = 0
	}
	for eventType, n := range fresh {
		s.emitted[eventType] += n
	}
	s.read = read
	now := sql.Named("now", time.Now().UnixMicro())
	err = s.service.each(ctx, s.service.db, "timers", func(rows *sql.Rows) error {
		var eventType string
		var n int64
		if err := rows.Scan(&eventType, &n); err != nil {
			return err
		}
		timers[eventType] += n
		st.Timers += n
		return nil
	}, now)
	if err != nil {
		return err
	}
	var unpublished int64
	text, values := bind(s.service.queries["unpublished"], s.service.marks, now)
	err = s.service.db.QueryRowContext(ctx, text, values...).Scan(&unpublished)
	st.Unpublished += unpublished
	return err
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

// each visits the rows of one of the service's queries.
func (s *Service) each(ctx context.Context, q querier, name string, visit func(*sql.Rows) error, args ...sql.NamedArg) error {
	text, values := bind(s.queries[name], s.marks, args...)
	return eachRow(ctx, q, text, values, visit)
}

// each visits the rows of a query of the scratch database.
func each(ctx context.Context, q querier, text string, visit func(*sql.Rows) error, args ...sql.NamedArg) error {
	text, values := bind(text, false, args...)
	return eachRow(ctx, q, text, values, visit)
}

func eachRow(ctx context.Context, q querier, text string, values []any, visit func(*sql.Rows) error) error {
	rows, err := q.QueryContext(ctx, text, values...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := visit(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
