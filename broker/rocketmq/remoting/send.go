package remoting

import (
	"context"
	"encoding/binary"
	"strconv"
	"time"
)

const (
	requestSend      = 310
	requestSendBatch = 320
)

// Sending is messages for one queue. Several are stored behind one another, whole or
// in part, from the first on.
type Sending struct {
	// Group names the producer.
	Group, Topic, Broker string
	Queue                int
	Messages             []Outgoing
	// Half is whether it is one half message, whose properties say so too.
	Half bool
}

// Outgoing is one message: its body and its properties as they are stored.
type Outgoing struct {
	Properties string
	Body       []byte
}

// Stored is where the first of a request's messages is; the others follow.
type Stored struct {
	Offset int64
	// ID is the broker's own of each message, by commas.
	ID string
}

// Send sends messages and waits until they are stored, as the broker understands it.
// An answer that says anything else is a *Refusal.
func (c *Client) Send(ctx context.Context, addr string, s Sending) (Stored, error) {
	cmd := Command{Code: requestSend, Fields: map[string]string{
		"a": s.Group, "b": s.Topic,
		// No topic to take settings from: a broker would make the one that is missing.
		"c": "", "d": "0",
		"e": strconv.Itoa(s.Queue), "f": "0", "g": strconv.FormatInt(time.Now().UnixMilli(), 10), "h": "0",
		"j": "0", "k": "false", "l": "0", "m": "false", "n": s.Broker,
	}}
	if s.Half {
		cmd.Fields["f"] = strconv.Itoa(sysHalf)
	}
	if len(s.Messages) == 1 && (len(s.Messages[0].Body) > 0 || s.Half) {
		cmd.Fields["i"], cmd.Body = s.Messages[0].Properties, s.Messages[0].Body
	} else { // as is one without a body, which brokers can't take as the request's
		cmd.Code, cmd.Fields["m"], cmd.Fields["i"] = requestSendBatch, "true", ""
		for _, m := range s.Messages {
			cmd.Body = appendOutgoing(cmd.Body, m)
		}
	}
	a, err := c.request(ctx, addr, cmd)
	if err != nil {
		return Stored{}, err
	}
	at, err := strconv.ParseInt(a.Fields["queueOffset"], 10, 64)
	if err != nil {
		return Stored{}, unreadable(addr, cmd.Code, err)
	}
	return Stored{Offset: at, ID: a.Fields["msgId"]}, nil
}

// sysHalf is the flag of a half message.
const sysHalf = 1 << 2

// batchOverhead is what a message of several takes beside its body and properties.
const batchOverhead = 22

// Size is what m takes in a request of several.
func (m Outgoing) Size() int { return batchOverhead + len(m.Body) + len(m.Properties) }

func appendOutgoing(dst []byte, m Outgoing) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(m.Size()))
	dst = binary.BigEndian.AppendUint32(dst, 0) // magic
	dst = binary.BigEndian.AppendUint32(dst, 0) // checksum: the broker's
	dst = binary.BigEndian.AppendUint32(dst, 0) // flag
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(m.Body)))
	dst = append(dst, m.Body...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(m.Properties)))
	return append(dst, m.Properties...)
}
