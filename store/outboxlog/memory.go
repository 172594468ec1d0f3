package outboxlog

import (
	"strings"

	"github.com/settlemq/settle"
)

// Memory is where rows that are read keep what they hold: in a few pieces, each
// for many of them, because a piece for each value costs more than reading it.
// A piece lives as long as one of its rows does, so pieces are small. The zero
// value is empty.
type Memory struct {
	texts  strings.Builder
	bytes  []byte
	events []settle.Event
}

const (
	textPiece  = 4 << 10
	bytesPiece = 16 << 10
	// What is larger has a piece of its own.
	largeBytes = bytesPiece / 8
	eventPiece = 16
)

// Text copies a text.
func (m *Memory) Text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > textPiece/8 {
		return string(b)
	}
	if m.texts.Cap()-m.texts.Len() < len(b) {
		m.texts = strings.Builder{}
		m.texts.Grow(textPiece)
	}
	n := m.texts.Len()
	m.texts.Write(b)
	return m.texts.String()[n:]
}

// Bytes copies bytes; nil stays nil.
func (m *Memory) Bytes(b []byte) []byte {
	if b == nil {
		return nil
	}
	if len(b) == 0 || len(b) > largeBytes {
		return append(make([]byte, 0, len(b)), b...)
	}
	if cap(m.bytes)-len(m.bytes) < len(b) {
		m.bytes = make([]byte, 0, bytesPiece)
	}
	n := len(m.bytes)
	m.bytes = append(m.bytes, b...)
	return m.bytes[n:len(m.bytes):len(m.bytes)]
}

// Event returns an empty event.
func (m *Memory) Event() *settle.Event {
	if len(m.events) == 0 {
		m.events = make([]settle.Event, eventPiece)
	}
	e := &m.events[0]
	m.events = m.events[1:]
	return e
}
