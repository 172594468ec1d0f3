package drill

import (
	"bytes"
	"encoding/binary"
)

// Witness sees the bytes of one connection to a broker, in order, and tells
// which of the answers acknowledge what was published.
type Witness interface {
	// Asked takes what the client sends.
	Asked(b []byte)
	// Answered takes what the broker answers and returns how many
	// acknowledgements begin in it.
	Answered(b []byte) int
}

// TextWitness finds a text that only acknowledgements hold. Without a text it
// finds none.
type TextWitness struct {
	Text string
	tail []byte // may be the beginning of the text
}

// Asked implements Witness.
func (*TextWitness) Asked([]byte) {}

// Answered implements Witness.
func (w *TextWitness) Answered(b []byte) int {
	if w.Text == "" {
		return 0
	}
	text := []byte(w.Text)
	seen := append(w.tail, b...)
	n := bytes.Count(seen, text)
	if n > 0 {
		seen = seen[bytes.LastIndex(seen, text)+len(text):]
	}
	w.tail = bytes.Clone(seen[max(0, len(seen)-len(text)+1):])
	return n
}

// KafkaWitness finds answers to requests that publish, by the number that each
// answer shares with its request. It sees nothing in what is encrypted.
type KafkaWitness struct {
	asked, answered frames
	publishes       map[uint32]bool
}

// kafkaProduce is the number of the request that publishes.
const kafkaProduce = 0

// Asked implements Witness.
func (w *KafkaWitness) Asked(b []byte) {
	w.asked.heads(b, func(head []byte) {
		if binary.BigEndian.Uint16(head[4:]) == kafkaProduce {
			if w.publishes == nil {
				w.publishes = map[uint32]bool{}
			}
			w.publishes[binary.BigEndian.Uint32(head[8:])] = true
		}
	}, 12)
}

// Answered implements Witness.
func (w *KafkaWitness) Answered(b []byte) (n int) {
	w.answered.heads(b, func(head []byte) {
		if id := binary.BigEndian.Uint32(head[4:]); w.publishes[id] {
			delete(w.publishes, id)
			n++
		}
	}, 8)
	return n
}

// frames finds the heads of messages that have their length in four bytes
// before them.
type frames struct {
	head []byte
	skip int // bytes of the current message that are still to come
}

// heads calls found with the first size bytes of each message, its length
// included. A message that is shorter is passed over.
func (f *frames) heads(b []byte, found func(head []byte), size int) {
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(b))
			b, f.skip = b[n:], f.skip-n
			continue
		}
		n := min(f.need(size)-len(f.head), len(b))
		f.head, b = append(f.head, b[:n]...), b[n:]
		if len(f.head) < 4 || len(f.head) < f.need(size) {
			continue
		}
		if len(f.head) == size {
			found(f.head)
		}
		f.skip = 4 + int(binary.BigEndian.Uint32(f.head)) - len(f.head)
		f.head = f.head[:0]
	}
}

// need is how many bytes make a head: the length first, and as much as the
// message has.
func (f *frames) need(size int) int {
	if len(f.head) < 4 {
		return 4
	}
	return int(min(uint64(size), 4+uint64(binary.BigEndian.Uint32(f.head))))
}
