// Package remoting speaks the protocol of RocketMQ's name servers and brokers: a
// request is a code with named fields and a body, and so is its answer. Requests to
// one server share a connection and are answered in any order.
package remoting

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// Command is a request, or what a server asks of us.
type Command struct {
	Code   int
	Fields map[string]string
	Body   []byte
}

// Answer is what a server says to a Command. Code 0 is success.
type Answer struct {
	Code   int
	Remark string
	Fields map[string]string
	Body   []byte
}

// header is what stands before a body.
type header struct {
	Code      int               `json:"code"`
	Fields    map[string]string `json:"extFields,omitempty"`
	Flag      int               `json:"flag"`
	Language  string            `json:"language"`
	Opaque    int32             `json:"opaque"`
	Remark    string            `json:"remark,omitempty"`
	Serialize string            `json:"serializeTypeCurrentRPC"`
	Version   int               `json:"version"`
}

const (
	flagAnswer = 1
	// maxFrame bounds what is taken from a server: it answers with at most a few
	// messages of 4 MiB.
	maxFrame = 64 << 20
)

var errFrame = errors.New("what came is no frame of RocketMQ")

// encode returns a frame: its length, that of the header, header, body.
func encode(h header, body []byte) ([]byte, error) {
	h.Language, h.Serialize = "GO", "JSON"
	text, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode request %d: %w", h.Code, err)
	}
	size := 4 + len(text) + len(body)
	if size > maxFrame {
		return nil, fmt.Errorf("request %d of %d bytes is too large", h.Code, size)
	}
	frame := make([]byte, 0, 4+size)
	frame = binary.BigEndian.AppendUint32(frame, uint32(size))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(text)))
	frame = append(frame, text...)
	return append(frame, body...), nil
}

// decode reads what stands behind the frame's length.
func decode(frame []byte) (h header, body []byte, err error) {
	if len(frame) < 4 {
		return h, nil, errFrame
	}
	mark := binary.BigEndian.Uint32(frame)
	kind, size := mark>>24, int(mark&0xffffff)
	switch {
	case kind != 0: // requests in JSON are answered in JSON
		return h, nil, fmt.Errorf("%w: its header is of kind %d", errFrame, kind)
	case size > len(frame)-4:
		return h, nil, errFrame
	}
	if err := json.Unmarshal(frame[4:4+size], &h); err != nil {
		return h, nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	return h, frame[4+size:], nil
}
