package rocketmq

import (
	"errors"
	"strings"

	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

// maxWrapping bounds what is kept of a letter beside its bytes and headers.
const maxWrapping = 64 << 10

// wrap keeps a message's properties as they are, in their order, without those of its
// death. It returns nil for what can't be sent again: without a body, or with one
// that could not be unpacked.
func wrap(m remoting.Message) []byte {
	if len(m.Body) == 0 || m.BodyErr != nil || len(m.Properties) > maxWrapping {
		return nil
	}
	kept := []byte{} // not nil: a message without properties can go back
	for pair := range strings.SplitSeq(m.Properties, string(valueEnd)) {
		if name, _, is := strings.Cut(pair, string(nameEnd)); is && !isOfDeath(name) {
			kept = append(append(kept, pair...), valueEnd)
		}
	}
	// A wrapping that is empty could not be told from none.
	return append(kept, valueEnd)
}

// unwrap makes the message of a letter that goes to topic, to its group alone where
// origin names the topic that it came from.
func unwrap(r bridge.Return, origin string) (remoting.Outgoing, error) {
	if len(r.Letter.Wrapping) == 0 {
		return remoting.Outgoing{}, errors.New("it is not known what it was")
	}
	properties := r.Letter.Wrapping[: len(r.Letter.Wrapping)-1 : len(r.Letter.Wrapping)-1]
	properties = appendProperty(properties, bridge.HeaderReturn, r.ID)
	properties = appendProperty(properties, propertyRetryTopic, origin)
	if len(properties) > maxProperties {
		return remoting.Outgoing{}, errors.New("its properties have no room for the id of the return")
	}
	return remoting.Outgoing{Properties: string(properties), Body: r.Letter.Record.Raw}, nil
}
