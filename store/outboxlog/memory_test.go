package outboxlog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/settlemq/settle"
)

// What was read before stays as it is, whatever is read behind it.
func TestRowsDoNotShareWhatTheyHold(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var m Memory
	var texts, wantTexts []string
	var payloads, wantPayloads [][]byte
	var events []*settle.Event
	wire := make([]byte, 40_000)
	for i := range 2000 {
		n := []int{0, 1, 36, 300, 600, 5000}[r.IntN(6)]
		for j := range n {
			wire[j] = byte('a' + (i+j)%26)
		}
		texts, wantTexts = append(texts, m.Text(wire[:n])), append(wantTexts, string(wire[:n]))
		payloads, wantPayloads = append(payloads, m.Bytes(wire[:n])), append(wantPayloads, bytes.Clone(wire[:n]))
		e := m.Event()
		e.ID = fmt.Sprint(i)
		events = append(events, e)
	}
	for i := range texts {
		if texts[i] != wantTexts[i] || !bytes.Equal(payloads[i], wantPayloads[i]) || events[i].ID != fmt.Sprint(i) {
			t.Fatalf("row %d has become %.40q, %.40q, event %s", i, texts[i], payloads[i], events[i].ID)
		}
		_ = append(payloads[i], "overwritten"...)
	}
	for i := range payloads {
		if !bytes.Equal(payloads[i], wantPayloads[i]) {
			t.Fatalf("row %d was changed by appending to another's payload", i)
		}
	}
}

func TestSmallRowsAreReadInAFewPieces(t *testing.T) {
	payload, id := []byte(strings.Repeat("x", 256)), []byte(strings.Repeat("i", 36))
	var m Memory
	pieces := testing.AllocsPerRun(100, func() {
		for range 64 {
			m.Text(id)
			m.Bytes(payload)
			m.Event()
		}
	})
	if pieces > 16 {
		t.Errorf("64 rows take %.0f pieces of memory", pieces)
	}
}
