package main

import (
	"errors"
	"fmt"
	"strconv"
)

// The events are numbered from 0. Their ids look like UUIDs and end in the
// number, so that the sink knows which one it was without parsing a payload.
const (
	payloadBytes = 256
	largeBytes   = 256 << 10
	idPrefix     = "00000000-0000-7000-8000-"
	eventType    = "order.created"
)

func eventID(n int) string { return fmt.Sprintf("%s%012x", idPrefix, n) }

func eventKey(n, keys int) string { return "o-" + strconv.Itoa(n%keys) }

func payload(n int) []byte {
	b := make([]byte, 0, payloadBytes)
	b = append(strconv.AppendInt(append(b, `{"order_id":"`...), int64(n), 10), `","note":"`...)
	for len(b) < payloadBytes-2 {
		b = append(b, 'x')
	}
	return append(b, `"}`...)
}

// eventNumber is the inverse of eventID.
func eventNumber(id string) (int, error) {
	if len(id) != len(idPrefix)+12 {
		return 0, errors.New("an id that is not one of ours: " + id)
	}
	n := 0
	for _, c := range []byte(id[len(idPrefix):]) {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | int(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | int(c-'a'+10)
		default:
			return 0, errors.New("an id that is not one of ours: " + id)
		}
	}
	return n, nil
}
