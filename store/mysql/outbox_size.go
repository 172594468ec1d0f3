package mysql

import (
	"fmt"

	"github.com/settlemq/settle"
)

// A statement inserts at most so many events, and with more than one of them is
// not longer than that as text.
const (
	appendRows  = 64
	appendBytes = 4 << 20
)

// besides is what a row has as text beside its texts, and spare what is left of
// a packet for the statement's own.
const (
	besides = 512
	spare   = 2 << 10
)

// chunks are how many of the events go into each statement. What a server is
// sent that is longer than max_allowed_packet ends the connection, and the
// transaction of the fact with it, so an event that does not fit is refused
// before: however the driver of the transaction sends it.
func (s *Store) chunks(events []*settle.Event) (sizes []int, err error) {
	most := s.server.packet - spare
	n, room := 0, 0
	for _, e := range events {
		size := longest(e)
		if size > most {
			if is := length(e); is > most {
				return nil, fmt.Errorf("append event %s of type %q: it has %d bytes as SQL, and a statement may have %d (max_allowed_packet); let the server allow 16777216 or more and start this program anew, or send a reference in place of the payload",
					e.ID, e.Type, is, most)
			}
		}
		if len(sizes) == 0 || n == appendRows || size > room {
			sizes, n, room = append(sizes, 0), 0, min(appendBytes, most)
		}
		n, room = n+1, room-size
		sizes[len(sizes)-1] = n
	}
	return sizes, nil
}

// texts are all texts of an event but its headers.
func texts(e *settle.Event) []string {
	return []string{e.ID, e.Type, e.AggregateType, e.AggregateID, e.BizKey, e.TraceID, e.CausationID, e.Supersedes, e.Topic, e.ContentType}
}

// longest bounds how long an event may be in a statement: a byte of a text may
// take two, and one of a header six as JSON before.
func longest(e *settle.Event) int {
	n := besides + 2*len(e.Payload)
	for _, text := range texts(e) {
		n += 2 * len(text)
	}
	for name, value := range e.Headers {
		n += 12*(len(name)+len(value)) + 16
	}
	return n
}

// length is how long an event is in a statement.
func length(e *settle.Event) int {
	n := besides + quotedLen(e.Payload)
	for _, text := range texts(e) {
		n += quotedLen(text)
	}
	if headers, ok := headersText(e.Headers).(string); ok {
		n += quotedLen(headers)
	}
	return n
}

// quotedLen is how long a text is between quotes.
func quotedLen[T string | []byte](text T) int {
	n := len(text)
	for i := range len(text) {
		switch text[i] {
		case 0, '\n', '\r', 0x1a, '\'', '"', '\\':
			n++
		}
	}
	return n
}
