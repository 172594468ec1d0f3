package remoting

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Message is one as a broker keeps it.
type Message struct {
	Topic      string
	Queue      int
	Offset     int64
	Properties string
	// Body is as its producer gave it. BodyErr says why it is as it was stored.
	Body    []byte
	BodyErr error
	Born    time.Time
	// StoredAt is the broker's time.
	StoredAt time.Time
	// ID says in which broker and where in its log the message is.
	ID string
	// Redelivered counts how often a broker sent it again.
	Redelivered int
}

// Flags of a stored message, and what it may be compressed with.
const (
	sysCompressed = 1
	sysBornV6     = 1 << 4
	sysStoreV6    = 1 << 5

	compressedBits = 8
	compressedZlib = 3
)

// magicLongTopic begins messages of topics whose names take more than 127 bytes, as
// those of groups' failed messages can.
const magicLongTopic = -626843477

// maxBody bounds a body that is unpacked.
const maxBody = 16 << 20

var errCut = errors.New("a message is cut off")

// reader takes the fields of messages one by one. After the end it gives zeros and
// keeps that it was cut.
type reader struct {
	rest []byte
	cut  bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.cut, r.rest = true, nil
		return make([]byte, max(min(n, 16), 8))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) int16() int   { return int(int16(binary.BigEndian.Uint16(r.take(2)))) }
func (r *reader) int32() int   { return int(int32(binary.BigEndian.Uint32(r.take(4)))) }
func (r *reader) int64() int64 { return int64(binary.BigEndian.Uint64(r.take(8))) }

// maxUnpacked bounds what the bodies of one answer may take in memory: packed, many
// more fit into a frame. What is left out is asked for again.
const maxUnpacked = 4 * maxBody

// decodeMessages reads messages that stand behind one another, the first and as many
// more as maxUnpacked lets in.
func decodeMessages(data []byte) (all []Message, err error) {
	unpacked := 0
	for len(data) > 0 {
		if len(data) < 4 {
			return nil, errCut
		}
		size := int(int32(binary.BigEndian.Uint32(data)))
		if size < 4 || size > len(data) {
			return nil, errCut
		}
		m, err := decodeMessage(data[4:size])
		if err != nil {
			return nil, err
		}
		if unpacked += len(m.Body); unpacked > maxUnpacked && len(all) > 0 {
			return all, nil
		}
		all = append(all, m)
		data = data[size:]
	}
	return all, nil
}

func decodeMessage(data []byte) (m Message, err error) {
	r := &reader{rest: data}
	magic := r.int32()
	r.take(4) // checksum
	m.Queue = r.int32()
	r.take(4) // flag
	m.Offset = r.int64()
	at := r.int64()
	flags := r.int32()
	m.Born = time.UnixMilli(r.int64())
	r.take(hostSize(flags&sysBornV6 != 0))
	m.StoredAt = time.UnixMilli(r.int64())
	host := r.take(hostSize(flags&sysStoreV6 != 0))
	m.ID = strings.ToUpper(hex.EncodeToString(binary.BigEndian.AppendUint64(bytes.Clone(host), uint64(at))))
	m.Redelivered = r.int32()
	r.take(8) // where its half message is
	m.Body = r.take(r.int32())
	if magic == magicLongTopic {
		m.Topic = string(r.take(r.int16()))
	} else {
		m.Topic = string(r.take(int(r.take(1)[0])))
	}
	m.Properties = string(r.take(r.int16()))
	if r.cut {
		return m, errCut
	}
	if flags&sysCompressed != 0 {
		m.Body, m.BodyErr = unpack(m.Body, flags>>compressedBits&7)
	}
	return m, nil
}

// hostSize is that of an address and its port.
func hostSize(v6 bool) int {
	if v6 {
		return 20
	}
	return 8
}

// unpack returns what body holds, or body and why it can't be read.
func unpack(body []byte, kind int) ([]byte, error) {
	if kind != 0 && kind != compressedZlib {
		return body, fmt.Errorf("its body is compressed in a way that is not known here (%d); zlib is", kind)
	}
	z, err := zlib.NewReader(bytes.NewReader(body))
	if err != nil {
		return body, fmt.Errorf("its body is not what it says, compressed: %w", err)
	}
	whole, err := io.ReadAll(io.LimitReader(z, maxBody+1))
	switch {
	case err != nil:
		return body, fmt.Errorf("its body is not what it says, compressed: %w", err)
	case len(whole) > maxBody:
		return body, fmt.Errorf("its body has more than %d bytes when it is unpacked", maxBody)
	}
	return whole, nil
}
