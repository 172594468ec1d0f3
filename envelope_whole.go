package settle

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// SetEnvelope makes value the whole envelope of e, as a producer has stored it:
// it travels byte for byte. What value says of TraceID, BizKey, CausationID,
// Version and OccurredAt is taken over where e has nothing else; a field of
// another type than expected is the producer's business and is passed over. It
// returns an error, and changes nothing, if value is not a JSON object or is the
// envelope of another event. value is kept, not copied.
func (e *Event) SetEnvelope(value []byte) error {
	var env envelope
	if !env.scan(value) {
		var err error
		if env, err = looseEnvelope(value); err != nil {
			return err
		}
	}
	if env.EventID != "" && env.EventID != e.ID {
		return fmt.Errorf("the envelope is that of event %q", env.EventID)
	}
	e.Envelope, e.Payload = value, nil
	setEmpty(&e.TraceID, env.TraceID)
	setEmpty(&e.CausationID, env.CausationID)
	if env.BizKey != "" {
		e.BizKey = env.BizKey
	}
	if env.Version > 0 {
		e.Version = env.Version
	}
	if !env.OccurredAt.IsZero() {
		e.OccurredAt = env.OccurredAt
	}
	return nil
}

func setEmpty(field *string, to string) {
	if *field == "" {
		*field = to
	}
}

// looseEnvelope reads what it can of an envelope in which anything may stand.
func looseEnvelope(value []byte) (env envelope, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(value, &fields); err != nil {
		return env, fmt.Errorf("the envelope is not a JSON object: %w", err)
	}
	if fields == nil {
		return env, errors.New("the envelope is not a JSON object: it is null")
	}
	for name, text := range map[string]*string{"eventId": &env.EventID, "bizKey": &env.BizKey, "traceId": &env.TraceID, "causationId": &env.CausationID} {
		if json.Unmarshal(fields[name], text) != nil {
			*text = ""
		}
	}
	if json.Unmarshal(fields["version"], &env.Version) != nil {
		env.Version = 0
	}
	if json.Unmarshal(fields["occurredAt"], &env.OccurredAt) != nil {
		env.OccurredAt = time.Time{}
	}
	return env, nil
}

func (e *Event) validateEnvelope() error {
	switch {
	case len(e.Payload) > 0:
		return e.invalid("payload", "is set beside the whole envelope; one of them is sent")
	case len(e.Envelope) > MaxEnvelope:
		return e.invalid("envelope", fmt.Sprintf("has %d bytes; the limit is %d", len(e.Envelope), MaxEnvelope))
	case !validJSON(e.Envelope) || e.Envelope[skipSpace(e.Envelope, 0)] != '{':
		return e.invalid("envelope", "is not a JSON object")
	}
	return nil
}
