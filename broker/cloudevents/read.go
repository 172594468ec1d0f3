package cloudevents

import "github.com/settlemq/settle"

// Read decodes what r holds, with the content type of a protocol that keeps it
// apart, and sets its Event or its DecodeErr. What was a CloudEvent is an envelope
// afterwards: Raw and Headers become what the same event would have come as, so
// that stores and whoever decodes them again know one wire. What can't be
// understood stays as it was found.
func (b Binding) Read(r *settle.Record, contentType string) {
	e, is, err := b.Decode(Found{Value: r.Raw, Headers: r.Headers, ContentType: contentType, Key: r.Key})
	r.Event, r.DecodeErr = e, err
	if err != nil || !is {
		return
	}
	headers := make(map[string]string, len(e.Headers)+len(r.Headers))
	for name, value := range r.Headers {
		if isSettles(name) {
			headers[name] = value
		}
	}
	for name, value := range e.Headers {
		headers[name] = value
	}
	if source := e.Headers["ce-"+attrSource]; source != "" {
		headers[settle.HeaderProducer] = source
	}
	r.Raw, r.Headers = settle.AppendEnvelope(nil, e), headers
}
