package drill

import (
	"context"
	"database/sql"
	"fmt"
)

// Letter is a dead letter that waits for a person. ID is what commands call
// it: SERVICE:NUMBER.
type Letter struct {
	ID        string `json:"id"`
	Service   string `json:"service"`
	Class     string `json:"class"`
	EventType string `json:"event_type"`
	Key       string `json:"key"`
	Reason    string `json:"reason"`
}

// Letters returns the service's dead letters that wait for a person, the
// oldest first.
func (s *Service) Letters(ctx context.Context) ([]Letter, error) {
	var all []Letter
	err := s.each(ctx, s.db, "letters", func(rows *sql.Rows) error {
		var number int64
		l := Letter{Service: s.name}
		if err := rows.Scan(&number, &l.Class, &l.EventType, &l.Key, &l.Reason); err != nil {
			return err
		}
		l.ID = letterID(s.name, number)
		all = append(all, l)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read dead letters of %s: %w", s.name, err)
	}
	return all, nil
}

func letterID(service string, number int64) string { return fmt.Sprintf("%s:%d", service, number) }
