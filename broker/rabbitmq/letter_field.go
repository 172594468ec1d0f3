package rabbitmq

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// field is a value of a header, with its type as AMQP 0-9-1 writes it in the
// dialect of RabbitMQ.
type field struct {
	T string          `json:"t"`
	V json.RawMessage `json:"v,omitempty"`
}

func pack(v any) field {
	switch v := v.(type) {
	case nil:
		return field{T: "V"}
	case bool:
		return packed("t", v)
	case uint8:
		return packed("B", v)
	case int8:
		return packed("b", v)
	case int16:
		return packed("s", v)
	case uint16:
		return packed("u", v)
	case int32:
		return packed("I", v)
	case uint32: // the client reads it, and can't write it
		return packed("l", int64(v))
	case int64:
		return packed("l", v)
	case float32:
		return packed("f", strconv.FormatFloat(float64(v), 'g', -1, 32))
	case float64:
		return packed("d", strconv.FormatFloat(v, 'g', -1, 64))
	case amqp.Decimal:
		return packed("D", v)
	case string:
		return packed("S", octets(v))
	case []byte:
		return packed("x", v)
	case time.Time:
		return packed("T", v.Unix())
	case amqp.Table:
		return packed("F", packTable(v))
	case []any:
		all := make([]field, len(v))
		for i := range v {
			all[i] = pack(v[i])
		}
		return packed("A", all)
	}
	return packed("S", octets(fmt.Sprint(v)))
}

func packed(t string, v any) field {
	b, err := json.Marshal(v)
	if err != nil { // what a header holds can be
		return field{T: "V"}
	}
	return field{t, b}
}

// packTable sorts by name, as JSON's objects are written.
func packTable(from amqp.Table) map[string]field {
	table := make(map[string]field, len(from))
	for k, v := range from {
		table[k] = pack(v)
	}
	return table
}

func (f field) unpack() (any, error) {
	switch f.T {
	case "V":
		return nil, nil
	case "t":
		return unpacked[bool](f.V)
	case "B":
		return unpacked[uint8](f.V)
	case "b":
		return unpacked[int8](f.V)
	case "s":
		return unpacked[int16](f.V)
	case "u":
		return unpacked[uint16](f.V)
	case "I":
		return unpacked[int32](f.V)
	case "l":
		return unpacked[int64](f.V)
	case "f":
		n, err := f.float(32)
		return float32(n), err
	case "d":
		return f.float(64)
	case "D":
		return unpacked[amqp.Decimal](f.V)
	case "S":
		s, err := unpacked[octets](f.V)
		return string(s), err
	case "x":
		return unpacked[[]byte](f.V)
	case "T":
		seconds, err := unpacked[int64](f.V)
		return time.Unix(seconds, 0).UTC(), err
	case "F":
		table, err := unpacked[map[string]field](f.V)
		if err != nil {
			return nil, err
		}
		return unpackTable(table)
	case "A":
		return f.array()
	}
	return nil, fmt.Errorf("a header of unknown type %q", f.T)
}

func (f field) float(bits int) (float64, error) {
	s, err := unpacked[string](f.V)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(s, bits)
}

func (f field) array() (any, error) {
	fields, err := unpacked[[]field](f.V)
	if err != nil {
		return nil, err
	}
	all := make([]any, len(fields))
	for i := range fields {
		if all[i], err = fields[i].unpack(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func unpacked[T any](from json.RawMessage) (v T, err error) {
	err = json.Unmarshal(from, &v)
	return v, err
}

func unpackTable(from map[string]field) (amqp.Table, error) {
	table := make(amqp.Table, len(from))
	for k, f := range from {
		v, err := f.unpack()
		if err != nil {
			return nil, err
		}
		table[k] = v
	}
	return table, nil
}
