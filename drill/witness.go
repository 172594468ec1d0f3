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
	w.asked.heads(b, kafkaFrame, func(head []byte) {
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
	w.answered.heads(b, kafkaFrame, func(head []byte) {
		if id := binary.BigEndian.Uint32(head[4:]); w.publishes[id] {
			delete(w.publishes, id)
			n++
		}
	}, 8)
	return n
}

// kafkaFrame is a message of Kafka's: its length, then so many bytes.
var kafkaFrame = frame{length: 0, around: 4}

// AMQPWitness finds confirms of AMQP 0-9-1. It sees nothing in what is encrypted.
type AMQPWitness struct{ answered frames }

// A frame of AMQP is a type, a channel, a length, so many bytes, and an end. That
// of a method begins with its class and its number; a server acknowledges what
// was published, and nothing else.
var amqpFrame = frame{length: 3, around: 8}

const (
	amqpMethod = 1
	amqpBasic  = 60
	amqpAck    = 80
)

// Asked implements Witness.
func (*AMQPWitness) Asked([]byte) {}

// Answered implements Witness.
func (w *AMQPWitness) Answered(b []byte) (n int) {
	w.answered.heads(b, amqpFrame, func(head []byte) {
		if head[0] == amqpMethod && binary.BigEndian.Uint16(head[7:]) == amqpBasic && binary.BigEndian.Uint16(head[9:]) == amqpAck {
			n++
		}
	}, 11)
	return n
}

// frame says where in a message its length stands, in four bytes, and how many
// bytes there are beside those that it counts.
type frame struct{ length, around int }

// frames finds the heads of messages that say how long they are.
type frames struct {
	head []byte
	skip int // bytes of the current message that are still to come
}

// heads calls found with the first size bytes of each message, its length
// included. A message that is shorter is passed over.
func (f *frames) heads(b []byte, of frame, found func(head []byte), size int) {
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(b))
			b, f.skip = b[n:], f.skip-n
			continue
		}
		n := min(f.need(of, size)-len(f.head), len(b))
		f.head, b = append(f.head, b[:n]...), b[n:]
		if len(f.head) < of.length+4 || len(f.head) < f.need(of, size) {
			continue
		}
		if len(f.head) == size {
			found(f.head)
		}
		f.skip = of.around + int(binary.BigEndian.Uint32(f.head[of.length:])) - len(f.head)
		f.head = f.head[:0]
	}
}

// need is how many bytes make a head: the length first, and as much as the
// message has.
func (f *frames) need(of frame, size int) int {
	if len(f.head) < of.length+4 {
		return of.length + 4
	}
	return int(min(uint64(size), uint64(of.around)+uint64(binary.BigEndian.Uint32(f.head[of.length:]))))
}
