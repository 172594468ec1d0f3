package drill_test

import (
	"encoding/binary"
	"testing"

	"github.com/settlemq/settle/drill"
)

// kafkaRequest is the beginning of a request of Kafka's and some of its body.
func kafkaRequest(kind, id int, body string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(kind))
	b = binary.BigEndian.AppendUint16(b, 13) // its version
	b = binary.BigEndian.AppendUint32(b, uint32(id))
	return framed(append(b, body...))
}

func kafkaAnswer(id int, body string) []byte {
	return framed(append(binary.BigEndian.AppendUint32(nil, uint32(id)), body...))
}

func framed(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func TestAWitnessOfKafkaCountsAnswersToWhatPublishesHoweverBytesAreCut(t *testing.T) {
	const produce, fetch = 0, 1
	asks := append(append(append(kafkaRequest(fetch, 1, "a"), kafkaRequest(produce, 2, "a long body")...), kafkaRequest(produce, 3, "")...), kafkaRequest(fetch, 4, "produce")...)
	answers := append(append(append(kafkaAnswer(1, "\x00\x00\x00\x02"), kafkaAnswer(2, "ok")...), kafkaAnswer(3, "")...), kafkaAnswer(4, "ok")...)
	for size := 1; size <= len(asks); size++ {
		w := &drill.KafkaWitness{}
		cut(asks, size, w.Asked)
		n := 0
		cut(answers, size, func(b []byte) { n += w.Answered(b) })
		if n != 2 {
			t.Errorf("in pieces of %d bytes %d acknowledgements are seen, want 2", size, n)
		}
		if again := w.Answered(kafkaAnswer(2, "ok")); again != 0 {
			t.Errorf("an answer that nobody waits for counts")
		}
	}
}

// amqpFrame is a frame of AMQP's: a type, a channel, a length, a body and an end.
func amqpFrame(kind byte, body string) []byte {
	b := binary.BigEndian.AppendUint16([]byte{kind}, 7)
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	return append(append(b, body...), 0xce)
}

func TestAWitnessOfAMQPCountsConfirmsHoweverBytesAreCut(t *testing.T) {
	const method, header, body, heartbeat = 1, 2, 3, 8
	ack, nack := "\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x00\x01\x00", "\x00\x3c\x00\x78\x00\x00\x00\x00\x00\x00\x00\x01\x00"
	opened, delivery := "\x00\x14\x00\x0b\x00\x00\x00\x00", "\x00\x3c\x00\x3c\x00"
	var answers []byte
	for _, f := range [][]byte{
		amqpFrame(method, opened), amqpFrame(method, ack), amqpFrame(heartbeat, ""), amqpFrame(method, delivery), amqpFrame(header, ack), amqpFrame(body, ack),
		amqpFrame(method, nack), amqpFrame(method, ack), amqpFrame(body, string(amqpFrame(method, ack))), amqpFrame(heartbeat, ""),
	} {
		answers = append(answers, f...)
	}
	for size := 1; size <= len(answers); size++ {
		w, n := &drill.AMQPWitness{}, 0
		cut(answers, size, w.Asked)
		cut(answers, size, func(b []byte) { n += w.Answered(b) })
		if n != 2 {
			t.Errorf("in pieces of %d bytes %d confirms are seen, want 2", size, n)
		}
	}
}

func TestAWitnessOfTextFindsItAcrossPieces(t *testing.T) {
	for size := 1; size < 12; size++ {
		w, n := &drill.TextWitness{Text: "+ACK"}, 0
		cut([]byte("MSG +ACK +AC +ACK K"), size, func(b []byte) { n += w.Answered(b) })
		if n != 2 {
			t.Errorf("in pieces of %d bytes it is seen %d times, want 2", size, n)
		}
	}
	if n := (&drill.TextWitness{}).Answered([]byte("anything")); n != 0 {
		t.Errorf("no text is seen %d times", n)
	}
}

func cut(b []byte, size int, each func([]byte)) {
	for len(b) > 0 {
		n := min(size, len(b))
		each(b[:n])
		b = b[n:]
	}
}
