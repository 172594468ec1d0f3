package remoting

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
)

const (
	requestEndTransaction   = 37
	requestCheckTransaction = 39
)

// Properties that make a message a half one.
const (
	// PropertyHalf is "true" in what a producer sends.
	PropertyHalf = "TRAN_MSG"
	// PropertyProducers names the group of producers that is asked.
	PropertyProducers = "PGROUP"
	// PropertyRealTopic is where a half message goes when it is committed.
	PropertyRealTopic = "REAL_TOPIC"
	// PropertyChecks counts how often the broker has asked.
	PropertyChecks = "TRANSACTION_CHECK_TIMES"
)

// Ends of a half message, as flags of the protocol.
const (
	EndCommit   = 2 << 2
	EndRollback = 3 << 2
)

// HalfPlace is where a half message is in its broker: its position among all half
// messages, and in the broker's log.
type HalfPlace struct {
	State, Log int64
}

// PlaceOf reads where a half message was stored.
func PlaceOf(s Stored) (HalfPlace, error) {
	id, err := hex.DecodeString(s.ID)
	if err != nil || len(id) < 16 {
		return HalfPlace{}, fmt.Errorf("the broker gives a half message the id %q, which says no place", s.ID)
	}
	return HalfPlace{State: s.Offset, Log: int64(binary.BigEndian.Uint64(id[len(id)-8:]))}, nil
}

// End is what becomes of a half message.
type End struct {
	Group, Topic, Broker string
	At                   HalfPlace
	// How is EndCommit or EndRollback.
	How int
	// Asked is whether the broker has asked.
	Asked bool
}

// EndTransaction tells a broker the end of a half message and waits until it has
// done so. Clients of the protocol commonly do not wait, and never learn of an end
// that was lost.
func (c *Client) EndTransaction(ctx context.Context, addr string, e End) error {
	_, err := c.request(ctx, addr, Command{Code: requestEndTransaction, Fields: map[string]string{
		"topic": e.Topic, "producerGroup": e.Group, "tranStateTableOffset": strconv.FormatInt(e.At.State, 10),
		"commitLogOffset": strconv.FormatInt(e.At.Log, 10), "commitOrRollback": strconv.Itoa(e.How),
		"fromTransactionCheck": strconv.FormatBool(e.Asked), "msgId": "", "transactionId": "", "bname": e.Broker,
	}})
	return err
}

// ProducerHeartbeat tells a broker that this connection is one of a producer of the
// group, which it may ask.
func (c *Client) ProducerHeartbeat(ctx context.Context, broker, clientID, group string) error {
	body, err := json.Marshal(map[string]any{
		"clientID": clientID, "producerDataSet": []map[string]string{{"groupName": group}}, "consumerDataSet": []string{},
	})
	if err != nil {
		return fmt.Errorf("encode heartbeat: %w", err)
	}
	_, err = c.request(ctx, broker, Command{Code: requestHeartbeat, Body: body})
	return err
}

// HalfCheck is a broker's question what becomes of a half message.
type HalfCheck struct {
	At HalfPlace
	// Message is the half message; its topic is that of all half messages.
	Message Message
}

// HalfCheck reads a request of a broker. is is false for one of another kind.
func (c Command) HalfCheck() (check HalfCheck, is bool, err error) {
	if c.Code != requestCheckTransaction {
		return check, false, nil
	}
	state, err := strconv.ParseInt(c.Fields["tranStateTableOffset"], 10, 64)
	if err != nil {
		return check, true, fmt.Errorf("read a check of a half message: %w", err)
	}
	log, err := strconv.ParseInt(c.Fields["commitLogOffset"], 10, 64)
	if err != nil {
		return check, true, fmt.Errorf("read a check of a half message: %w", err)
	}
	all, err := decodeMessages(c.Body)
	if err != nil {
		return check, true, fmt.Errorf("read a check of a half message: %w", err)
	}
	if len(all) != 1 {
		return check, true, fmt.Errorf("read a check of a half message: it has %d messages", len(all))
	}
	return HalfCheck{At: HalfPlace{State: state, Log: log}, Message: all[0]}, true, nil
}
