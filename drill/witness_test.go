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
