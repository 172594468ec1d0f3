package remoting

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

func TestAMessageOfATopicWithALongNameIsRead(t *testing.T) {
	const properties = "a\x01b\x02"
	short := stored(Message{Properties: properties}, 0, []byte("body"))
	name := "%DLQ%" + strings.Repeat("g", 200)
	at := len(short) - len(properties) - 2 - 1 // where the name has the byte of its length
	long := slices.Concat(short[:at], binary.BigEndian.AppendUint16(nil, uint16(len(name))), []byte(name), short[at+1:])
	binary.BigEndian.PutUint32(long, uint32(len(long)))
	binary.BigEndian.PutUint32(long[4:], 0xDAA320AB)
	got, err := decodeMessages(long)
	if err != nil || len(got) != 1 || got[0].Topic != name || string(got[0].Body) != "body" || got[0].Properties != properties {
		t.Errorf("it is %+v, %v", got, err)
	}
}
