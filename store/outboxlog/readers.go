package outboxlog

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/settlemq/settle/relay"
)

// reader is how a reader is stored: its open ids are runs.
type reader struct {
	Destination string `json:"destination,omitempty"`
	Cursor      int64  `json:"cursor"`
	CursorEvent string `json:"cursor_event,omitempty"`
	Open        []Run  `json:"open"`
}

// PackReaders is how readers are stored: JSON, in which [a, b] stands for all
// open ids from a to b.
func PackReaders(readers []relay.Reader) (string, error) {
	stored := make([]reader, len(readers))
	for i, r := range readers {
		stored[i] = reader{Destination: r.Destination, Cursor: r.Cursor, CursorEvent: r.CursorEvent, Open: Runs(r.Open)}
		if stored[i].Open == nil {
			stored[i].Open = []Run{}
		}
	}
	b, err := json.Marshal(stored)
	return string(b), err
}

// maxOpen bounds what a checkpoint may say is open, so that a damaged one can't
// fill the memory.
const maxOpen = 10_000_000

// UnpackReaders reads what PackReaders has written.
func UnpackReaders(packed string) ([]relay.Reader, error) {
	var stored []reader
	if err := json.NewDecoder(strings.NewReader(packed)).Decode(&stored); err != nil {
		return nil, err
	}
	readers := make([]relay.Reader, len(stored))
	for i, s := range stored {
		readers[i] = relay.Reader{Destination: s.Destination, Cursor: s.Cursor, CursorEvent: s.CursorEvent}
		for _, run := range s.Open {
			if run[1]-run[0] >= int64(maxOpen-len(readers[i].Open)) {
				return nil, fmt.Errorf("more than %d ids are open", maxOpen)
			}
			for id := run[0]; id <= run[1]; id++ {
				readers[i].Open = append(readers[i].Open, id)
			}
		}
	}
	return readers, nil
}
