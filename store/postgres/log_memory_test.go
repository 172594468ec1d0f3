package postgres

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
	var m memory
	var texts, wantTexts []string
	var payloads, wantPayloads [][]byte
	var events []*settle.Event
	wire := make([]byte, 40_000)
	for i := range 2000 {
		n := []int{0, 1, 36, 300, 600, 5000}[r.IntN(6)]
		for j := range n {
			wire[j] = byte('a' + (i+j)%26)
		}
		texts, wantTexts = append(texts, m.text(wire[:n])), append(wantTexts, string(wire[:n]))
		payloads, wantPayloads = append(payloads, m.copy(wire[:n])), append(wantPayloads, bytes.Clone(wire[:n]))
		e := m.event()
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

func TestAColumnThatIsNullIsEmptyAndBytesThatAreEmptyAreNot(t *testing.T) {
	var m memory
	c, p := textColumn{in: &m}, bytesColumn{in: &m}
	for _, v := range []string{"a", "a", "", "b"} {
		if err := c.ScanBytes([]byte(v)); err != nil || c.string != v {
			t.Errorf("%q was read as %q (%v)", v, c.string, err)
		}
	}
	if err := c.ScanBytes(nil); err != nil || c.string != "" {
		t.Errorf("NULL was read as %q (%v)", c.string, err)
	}
	if err := p.ScanBytes([]byte{}); err != nil || p.bytes == nil {
		t.Errorf("an empty payload was read as NULL (%v)", err)
	}
	if err := p.ScanBytes(nil); err != nil || p.bytes != nil {
		t.Errorf("NULL was read as %q (%v)", p.bytes, err)
	}
}

func TestSmallRowsAreReadInAFewPieces(t *testing.T) {
	payload, id := []byte(strings.Repeat("x", 256)), []byte(strings.Repeat("i", 36))
	var m memory
	pieces := testing.AllocsPerRun(100, func() {
		for range 64 {
			m.text(id)
			m.copy(payload)
			m.event()
		}
	})
	if pieces > 16 {
		t.Errorf("64 rows take %.0f pieces of memory", pieces)
	}
}
