package settle

import "fmt"

// TooLarge is the error of a record that is larger than its broker takes, both
// in bytes: it is the event's own, and permanent. It tells where the bytes come
// from that the producer has not written.
func TooLarge(e *Event, size, limit int) error {
	err := fmt.Errorf("record of %d bytes is over the broker's limit of %d", size, limit)
	if e.Envelope == nil && !IsJSON(e.ContentType) {
		err = fmt.Errorf("%w; its payload of %d bytes is %s and no JSON, so it travels as base64, a third larger", err, len(e.Payload), e.ContentType)
	}
	return &PublishError{Scope: ScopeRecord, Err: Permanent(err)}
}
