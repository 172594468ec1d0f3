package relay

import (
	"fmt"

	"github.com/settlemq/settle"
)

// CheckGeneration compares the recorded positions with the table as it is, and
// returns settle.ErrNewGeneration, with what differs, when they are of another
// life of it. An event that is gone from a cursor says nothing: it may have
// been deleted after it was sent.
func (s State) CheckGeneration() error {
	for _, r := range s.Checkpoint.Readers {
		if r.Cursor > s.MaxID {
			return generationError(r.Destination, fmt.Sprintf("it had come to id %d, the table has given ids up to %d only", r.Cursor, s.MaxID))
		}
		if now := s.CursorEvents[r.Cursor]; r.CursorEvent != "" && now != "" && now != r.CursorEvent {
			return generationError(r.Destination, fmt.Sprintf("id %d was event %s, it is event %s now", r.Cursor, r.CursorEvent, now))
		}
	}
	return nil
}

func generationError(destination, what string) error {
	where := ""
	if destination != "" {
		where = " of topic " + destination
	}
	return fmt.Errorf("read outbox from the recorded position%s: %w: %s; the database was restored or the table was made anew. Nothing is sent and nothing is skipped until a person decides where to start: settle outbox restart SERVICE shows what there is and the choices",
		where, settle.ErrNewGeneration, what)
}
