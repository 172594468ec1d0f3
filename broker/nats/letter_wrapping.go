package nats

import (
	"errors"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/internal/deadletter"
)

// maxWrapping bounds what is kept of a letter beside its bytes and headers.
const maxWrapping = 64 << 10

// wrap keeps a message's headers as they are, to the byte and in their order. It
// returns nil for what has too many to be kept.
func wrap(m *stored) []byte {
	if len(m.Header) >= maxWrapping {
		return nil
	}
	// A wrapping that is empty could not be told from none.
	return append([]byte{'\n'}, m.Header...)
}

// unwrap makes the message of a letter, without what its death and the server have
// added. The id by which the server knows copies is the return's: under the first one
// it would be taken for a copy of itself, and not stored.
func unwrap(r bridge.Return) (*nats.Msg, error) {
	if len(r.Letter.Wrapping) == 0 {
		return nil, errors.New("it is not known what it was")
	}
	m := &nats.Msg{Header: nats.Header{}, Data: r.Letter.Record.Raw}
	for name, values := range (&stored{Header: r.Letter.Wrapping[1:]}).header() {
		if !isServers(name) && !strings.EqualFold(name, bridge.HeaderReturn) && !strings.EqualFold(name, deadletter.HeaderOrigin) {
			m.Header[name] = values
		}
	}
	m.Header[nats.MsgIdHdr] = []string{r.ID}
	m.Header[bridge.HeaderReturn] = []string{r.ID}
	return m, nil
}
