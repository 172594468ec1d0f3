package adopt

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

// headerSource is where classic producers name themselves.
const headerSource = "source"

// Complete makes an event of a row of the table: its headers may hold any JSON,
// and its payload may be the whole envelope. Its time to wait for is set to that
// of the insert where there is nothing to wait for.
func (o *Outbox) Complete(e *settle.Event, row *relay.Row, headers []byte) {
	if len(headers) > 0 {
		var err error
		if e.Headers, err = looseHeaders(headers); err != nil {
			row.Defect = err.Error()
		}
	}
	if row.Source = e.Headers[headerSource]; !e.NotBefore.After(e.AppendedAt.Add(time.Second)) {
		e.NotBefore = time.Time{}
	}
	if !o.Envelope() {
		return
	}
	body := e.Payload
	if body == nil {
		body = []byte{}
	}
	if err := e.SetEnvelope(body); err != nil {
		row.Defect = "payload: " + err.Error()
	}
}

// looseHeaders keeps values that are not strings as their JSON text.
func looseHeaders(stored []byte) (map[string]string, error) {
	var h map[string]string
	if json.Unmarshal(stored, &h) == nil && h != nil {
		return h, nil
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(stored, &raw); err != nil {
		return nil, fmt.Errorf("headers are not a JSON object: %w", err)
	}
	h = make(map[string]string, len(raw))
	for name, value := range raw {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		if string(value) != "null" {
			h[name] = text
		}
	}
	return h, nil
}
