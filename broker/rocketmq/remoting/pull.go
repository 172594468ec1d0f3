package remoting

import (
	"context"
	"strconv"
	"time"
)

const (
	requestPull = 11

	answerNotFound    = 19
	answerAgain       = 20
	answerOffsetMoved = 21
)

// Flags of a pull: keep our position for the broker's tools, wait for messages,
// and the filter is in the request rather than in a heartbeat before it.
const (
	pullCommit = 1
	pullWait   = 2
	pullFilter = 4
)

// Pulling asks for the messages of a queue from an offset on.
type Pulling struct {
	Group, Topic string
	Queue        int
	Offset       int64
	// MaxMessages and MaxBytes bound what comes, as far as the broker keeps to them.
	MaxMessages, MaxBytes int
	// Done is up to where the group has come, for the broker's tools; 0 says nothing.
	Done int64
	// Wait is how long the broker waits for a message when it has none.
	Wait time.Duration
}

// Pulled is what there was. First and End are the bounds of the queue: the first
// offset that it still has, and that of its next message. Next is where the broker
// goes on; without messages it is beyond what was asked for only where the broker
// has lost what is between, or where that is not in the queue.
type Pulled struct {
	Messages []Message
	// Moved says that the offset is not within the bounds.
	Moved            bool
	First, End, Next int64
}

// answerRoom is how much longer than Wait an answer may take.
const answerRoom = 10 * time.Second

// Pull reads messages of a queue. It blocks until there are some, Wait has passed or
// ctx ends.
func (c *Client) Pull(ctx context.Context, addr string, p Pulling) (Pulled, error) {
	flags := pullFilter
	if p.Done > 0 {
		flags |= pullCommit
	}
	if p.Wait > 0 {
		flags |= pullWait
	}
	ctx, cancel := context.WithTimeout(ctx, p.Wait+answerRoom)
	defer cancel()
	a, err := c.request(ctx, addr, Command{Code: requestPull, Fields: map[string]string{
		"consumerGroup": p.Group, "topic": p.Topic, "queueId": strconv.Itoa(p.Queue), "queueOffset": strconv.FormatInt(p.Offset, 10),
		"maxMsgNums": strconv.Itoa(p.MaxMessages), "maxMsgBytes": strconv.Itoa(p.MaxBytes), "sysFlag": strconv.Itoa(flags), "commitOffset": strconv.FormatInt(p.Done, 10),
		"suspendTimeoutMillis": strconv.FormatInt(p.Wait.Milliseconds(), 10), "subscription": "*", "subVersion": "0", "expressionType": "TAG",
	}}, answerNotFound, answerAgain, answerOffsetMoved)
	if err != nil {
		return Pulled{}, err
	}
	var found Pulled
	switch a.Code {
	case 0:
		if found.Messages, err = decodeMessages(a.Body); err != nil {
			return found, unreadable(addr, requestPull, err)
		}
	case answerOffsetMoved:
		found.Moved = true
	}
	if found.First, err = strconv.ParseInt(a.Fields["minOffset"], 10, 64); err == nil {
		found.End, err = strconv.ParseInt(a.Fields["maxOffset"], 10, 64)
	}
	if err == nil {
		found.Next, err = strconv.ParseInt(a.Fields["nextBeginOffset"], 10, 64)
	}
	if err != nil {
		return found, unreadable(addr, requestPull, err)
	}
	return found, nil
}
