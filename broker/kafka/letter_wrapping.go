package kafka

import (
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/internal/deadletter"
)

// maxWrapping bounds what is kept of a letter beside its bytes and headers.
const maxWrapping = 64 << 10

// wrapping is what makes a letter the record that it was.
type wrapping struct {
	// NoValue and NoKey tell what is null from what is empty.
	NoValue bool `json:"no_value,omitempty"`
	NoKey   bool `json:"no_key,omitempty"`
	// Key where it is not text.
	Key []byte `json:"key,omitempty"`
	// Headers are those of the record, in order.
	Headers []wrappedHeader `json:"headers,omitempty"`
}

// wrappedHeader has a value where the letter's text of its name is not its
// value.
type wrappedHeader struct {
	Name  string `json:"k"`
	Value []byte `json:"v,omitempty"`
	Bytes bool   `json:"b,omitempty"` // it has a value
	Null  bool   `json:"n,omitempty"`
}

// wrap returns nil for what has no room.
func wrap(r *kgo.Record) []byte {
	w := wrapping{NoValue: r.Value == nil, NoKey: r.Key == nil}
	if !deadletter.IsText(string(r.Key)) {
		w.Key = r.Key
	}
	times := map[string]int{}
	for _, h := range r.Headers {
		times[h.Key]++
	}
	for _, h := range r.Headers {
		if isOfDeath(h.Key) {
			continue
		}
		if !deadletter.IsText(h.Key) {
			return nil
		}
		kept := wrappedHeader{Name: h.Key, Null: h.Value == nil}
		if kept.Bytes = times[h.Key] > 1 || !deadletter.IsText(string(h.Value)); kept.Bytes {
			kept.Value = h.Value
		}
		w.Headers = append(w.Headers, kept)
	}
	packed, err := json.Marshal(w)
	if err != nil || len(packed) > maxWrapping {
		return nil
	}
	return packed
}

// unwrap makes the record of a letter, without what its death has added.
func unwrap(r bridge.Return) (*kgo.Record, error) {
	var w wrapping
	if err := json.Unmarshal(r.Letter.Wrapping, &w); err != nil {
		return nil, fmt.Errorf("unwrap it: %w", err)
	}
	out := &kgo.Record{}
	if !w.NoValue {
		out.Value = append([]byte{}, r.Letter.Record.Raw...)
	}
	switch {
	case w.NoKey:
	case w.Key != nil:
		out.Key = w.Key
	default:
		out.Key = []byte(r.Letter.Record.Key)
	}
	for _, h := range w.Headers {
		value := []byte(r.Letter.Record.Headers[h.Name])
		switch {
		case h.Null:
			value = nil
		case h.Bytes:
			value = append([]byte{}, h.Value...)
		}
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: h.Name, Value: value})
	}
	out.Headers = append(out.Headers, kgo.RecordHeader{Key: bridge.HeaderReturn, Value: []byte(r.ID)})
	return out, nil
}
