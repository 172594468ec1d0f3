package nats

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// stored is a message as its stream keeps it.
type stored struct {
	Subject  string    `json:"subject"`
	Sequence int64     `json:"seq"`
	Header   []byte    `json:"hdrs"`
	Data     []byte    `json:"data"`
	At       time.Time `json:"time"`
}

// message reads one message of a stream, nil when it is not there. It asks the
// stream's leader: a copy that lags would say of a message that it is gone.
func (b *Broker) message(ctx context.Context, stream string, sequence int64) (*stored, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	question, err := json.Marshal(map[string]int64{"seq": sequence})
	if err != nil {
		return nil, err
	}
	subject := "$JS.API.STREAM.MSG.GET." + stream
	reply, err := b.nc.RequestWithContext(ctx, subject, question)
	if err != nil {
		return nil, fmt.Errorf("read message %d of stream %q: %w", sequence, stream, because(ctx, err))
	}
	var a struct {
		Error   *refusal `json:"error"`
		Message *stored  `json:"message"`
	}
	if err := json.Unmarshal(reply.Data, &a); err != nil {
		return nil, fmt.Errorf("read message %d of stream %q: the answer is not a stream's: %w", sequence, stream, err)
	}
	switch {
	case a.Error != nil && (a.Error.Code == codeNoMessage || a.Error.Code == codeNoStream):
		return nil, nil
	case a.Error != nil:
		return nil, fmt.Errorf("read message %d of stream %q: %w", sequence, stream, a.Error)
	case a.Message == nil || a.Message.Sequence != sequence:
		return nil, fmt.Errorf("read message %d of stream %q: the answer is another message's", sequence, stream)
	}
	return a.Message, nil
}

// header reads a message's headers; what is none has none.
func (m *stored) header() nats.Header {
	if len(m.Header) == 0 {
		return nil
	}
	h, err := nats.DecodeHeadersMsg(m.Header)
	if err != nil {
		return nil
	}
	return h
}
