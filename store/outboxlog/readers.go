package outboxlog

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/settlemq/settle/relay"
)

// PackReaders is how readers are stored: JSON, in which open ids that follow one
// another are [first, last] and one that stands alone is itself.
func PackReaders(readers []relay.Reader) string { return packReaders(readers, true) }

// PackReadersInRuns is PackReaders with [id, id] for an id that stands alone,
// for a database whose queries can't tell the two apart.
func PackReadersInRuns(readers []relay.Reader) string { return packReaders(readers, false) }

func packReaders(readers []relay.Reader, alone bool) string {
	return string(appendReaders(nil, readers, alone))
}

func appendReaders(out []byte, readers []relay.Reader, alone bool) []byte {
	out = append(out, '[')
	for i := range readers {
		r := &readers[i]
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '{')
		if r.Destination != "" {
			out = append(appendJSON(append(out, `"destination":`...), r.Destination), ',')
		}
		out = strconv.AppendInt(append(out, `"cursor":`...), r.Cursor, 10)
		if r.CursorEvent != "" {
			out = appendJSON(append(out, `,"cursor_event":`...), r.CursorEvent)
		}
		out = append(out, `,"open":[`...)
		for k, run := range Runs(r.Open) {
			if k > 0 {
				out = append(out, ',')
			}
			if alone && run[0] == run[1] {
				out = strconv.AppendInt(out, run[0], 10)
				continue
			}
			out = strconv.AppendInt(append(out, '['), run[0], 10)
			out = append(strconv.AppendInt(append(out, ','), run[1], 10), ']')
		}
		out = append(appendRouting(append(out, ']'), r, alone), '}')
	}
	return append(out, ']')
}

// appendRouting adds what a reader says of routes.
func appendRouting(out []byte, r *relay.Reader, alone bool) []byte {
	if len(r.Topics) > 0 {
		out = appendJSON(append(out, `,"topics":`...), r.Topics)
	}
	if len(r.Routing) > 0 {
		out = appendJSON(append(out, `,"routing":`...), r.Routing)
	}
	if len(r.Routed) > 0 {
		out = appendReaders(append(out, `,"routed":`...), r.Routed, alone)
	}
	return out
}

func appendJSON(out []byte, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // texts and numbers always encode
		b = []byte(`null`)
	}
	return append(out, b...)
}

// maxOpen bounds what a checkpoint may say is open, so that a damaged one can't
// fill the memory.
const maxOpen = 10_000_000

// UnpackReaders reads what PackReaders or PackReadersInRuns has written, or a
// plain list of open ids.
func UnpackReaders(packed string) ([]relay.Reader, error) {
	var stored []storedReader
	if err := json.NewDecoder(strings.NewReader(packed)).Decode(&stored); err != nil {
		return nil, err
	}
	return unpack(stored)
}

type storedReader struct {
	Destination string            `json:"destination"`
	Cursor      int64             `json:"cursor"`
	CursorEvent string            `json:"cursor_event"`
	Open        []json.RawMessage `json:"open"`
	Topics      []string          `json:"topics"`
	Routing     []relay.Routing   `json:"routing"`
	Routed      []storedReader    `json:"routed"`
}

func unpack(stored []storedReader) ([]relay.Reader, error) {
	readers := make([]relay.Reader, len(stored))
	for i, s := range stored {
		readers[i] = relay.Reader{Destination: s.Destination, Cursor: s.Cursor, CursorEvent: s.CursorEvent, Topics: s.Topics, Routing: s.Routing}
		if len(s.Routed) > 0 {
			var err error
			if readers[i].Routed, err = unpack(s.Routed); err != nil {
				return nil, err
			}
		}
		for _, raw := range s.Open {
			run, err := unpackRun(raw)
			if err != nil {
				return nil, err
			}
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

func unpackRun(raw json.RawMessage) (run Run, err error) {
	if raw[0] == '[' {
		err = json.Unmarshal(raw, &run)
		return run, err
	}
	id, err := strconv.ParseInt(string(raw), 10, 64)
	return Run{id, id}, err
}
