package remoting

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"
)

// stored writes a message as brokers keep it.
func stored(m Message, flags int, body []byte) []byte {
	host := make([]byte, hostSize(flags&sysStoreV6 != 0))
	copy(host, []byte{127, 0, 0, 1})
	b := binary.BigEndian.AppendUint32(nil, 0) // its size
	b = append(b, make([]byte, 8)...)
	b = binary.BigEndian.AppendUint32(b, uint32(m.Queue))
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(m.Offset))
	b = binary.BigEndian.AppendUint64(b, 77)
	b = binary.BigEndian.AppendUint32(b, uint32(flags))
	b = binary.BigEndian.AppendUint64(b, uint64(m.Born.UnixMilli()))
	b = append(b, make([]byte, hostSize(flags&sysBornV6 != 0))...)
	b = binary.BigEndian.AppendUint64(b, uint64(m.StoredAt.UnixMilli()))
	b = append(b, host...)
	b = binary.BigEndian.AppendUint32(b, uint32(m.Redelivered))
	b = append(b, make([]byte, 8)...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	b = append(b, body...)
	b = append(append(b, byte(len(m.Topic))), m.Topic...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(m.Properties)))
	b = append(b, m.Properties...)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	return b
}

func packed(t *testing.T, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	if _, err := z.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestMessagesAreReadAsTheyAreKeptAlsoCompressedOnes(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	want := Message{Topic: "orders", Queue: 3, Offset: 1 << 40, Properties: "KEYS\x01k\x02", Born: at, StoredAt: at.Add(time.Second), Redelivered: 2, ID: "7F000001"}
	body := []byte("a body")
	for name, c := range map[string]struct {
		flags int
		body  []byte
		bad   bool
	}{
		"plain":                     {0, body, false},
		"hosts of IPv6":             {sysBornV6 | sysStoreV6, body, false},
		"compressed by old clients": {sysCompressed, packed(t, body), false},
		"compressed":                {sysCompressed | compressedZlib<<compressedBits, packed(t, body), false},
		"compressed with another":   {sysCompressed | 2<<compressedBits, body, true},
		"not compressed at all":     {sysCompressed, body, true},
		"cut while compressed":      {sysCompressed, packed(t, body)[:9], true},
		"empty":                     {0, nil, false},
	} {
		all, err := decodeMessages(bytes.Repeat(stored(want, c.flags, c.body), 2))
		if err != nil || len(all) != 2 {
			t.Errorf("%s: %d messages, %v", name, len(all), err)
			continue
		}
		got := all[1]
		if got.Topic != want.Topic || got.Queue != want.Queue || got.Offset != want.Offset || got.Properties != want.Properties ||
			!got.Born.Equal(want.Born) || !got.StoredAt.Equal(want.StoredAt) || got.Redelivered != want.Redelivered || got.ID[:8] != want.ID {
			t.Errorf("%s: %+v", name, got)
		}
		read := body
		if c.bad || c.body == nil {
			read = c.body
		}
		if (got.BodyErr != nil) != c.bad || !bytes.Equal(got.Body, read) {
			t.Errorf("%s: the body is %q, %v", name, got.Body, got.BodyErr)
		}
	}
}

func TestPackedMessagesOfOneAnswerAreBoundedInMemory(t *testing.T) {
	large := stored(Message{Topic: "t"}, sysCompressed, packed(t, make([]byte, maxBody)))
	for given, want := range map[int]int{1: 1, 4: 4, 5: 4, 9: 4} {
		if all, err := decodeMessages(bytes.Repeat(large, given)); err != nil || len(all) != want {
			t.Errorf("of %d messages %d are read, %v; want %d", given, len(all), err, want)
		}
	}
	// One that is larger than all may take would never be read.
	if all, err := decodeMessages(bytes.Repeat(stored(Message{Topic: "t"}, 0, make([]byte, maxUnpacked+1)), 2)); err != nil || len(all) != 1 {
		t.Errorf("%d messages are read, %v", len(all), err)
	}
}

// What comes from a server may be anything.
func TestMessagesThatAreCutOrNonsenseAreAnErrorAndNoMore(t *testing.T) {
	whole := stored(Message{Topic: "orders", Properties: "a\x01b\x02"}, 0, []byte("body"))
	for n := 1; n < len(whole); n++ {
		if all, err := decodeMessages(whole[:n]); err == nil {
			t.Errorf("of %d bytes: %v", n, all)
		}
		short := bytes.Clone(whole[:n])
		if n >= 4 {
			binary.BigEndian.PutUint32(short, uint32(n))
			if all, err := decodeMessages(short); err == nil {
				t.Errorf("of %d bytes that say so: %v", n, all)
			}
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		b := bytes.Clone(whole)
		for range 1 + rnd.IntN(4) {
			b[rnd.IntN(len(b))] = byte(rnd.Uint32())
		}
		_, _ = decodeMessages(b) // and no panic
	}
}
