package adopt

import (
	"cmp"
	"encoding/json"

	"github.com/settlemq/settle/store/migrate"
)

// Payloads decides by the newest rows whether payloads are whole envelopes: one
// names its own event.
type Payloads struct{ all, whole int }

// Add takes note of a row.
func (p *Payloads) Add(eventID string, payload []byte) {
	var named struct {
		EventID string `json:"eventId"`
	}
	if p.all++; json.Unmarshal(payload, &named) == nil && named.EventID == eventID {
		p.whole++
	}
}

// Payload decides what payloads are.
func (l *Look) Payload(p Payloads) {
	want := l.Config.Payload
	if l.Before != nil {
		want = cmp.Or(want, l.Before.Payload)
	}
	found := migrate.PayloadBody
	if p.whole*2 > p.all || p.all == 0 {
		found = migrate.PayloadEnvelope
	}
	switch {
	case want == "" && p.all > 0 && p.whole != 0 && p.whole != p.all:
		l.Refuse("of the %d newest payloads %d are whole envelopes; say what they are: --payload envelope or --payload body", p.all, p.whole)
	case want == "" && p.all == 0:
		l.Note("there is no row yet that shows whether payloads are whole envelopes: they are taken for that; --payload body says that they are not")
	case want == migrate.PayloadEnvelope && p.all > 0 && p.whole == 0:
		l.Note("none of the %d newest payloads is an envelope that names its own event", p.all)
	}
	l.Outbox.Payload = cmp.Or(want, found)
	l.Plan.Payload = l.Outbox.Payload
}
