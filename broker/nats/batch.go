package nats

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/settlemq/settle"
)

// Headers of the server's atomic batches. The client library does not set them.
const (
	headerBatchID     = "Nats-Batch-Id"
	headerBatchSeq    = "Nats-Batch-Sequence"
	headerBatchCommit = "Nats-Batch-Commit"
)

// atomic publishes the first messages of ready as one atomic batch: all of it
// is stored, or nothing. It returns what did not fit the batch. A batch that
// is refused is asked for again, each message by itself, but for one that holds
// duplicates: that is the error then. Any other means that the broker or the
// topic takes nothing more now.
//
// Crash here: after the last message is sent the batch may be stored although
// nobody has read the answer. Sent again under the same ids within the
// server's window it is refused as a duplicate, then found one by one.
func (p *publication) atomic(ctx context.Context, t *topic, ready []outgoing) (rest []outgoing, down error) {
	select {
	case t.sending <- struct{}{}:
		defer func() { <-t.sending }()
	case <-ctx.Done():
		return ready, classify(context.Cause(ctx))
	}
	f := flight{p: p, t: t, id: []string{rand.Text()}}
	rest, err := f.send(ready)
	var got answer
	if err == nil && len(f.sent) > 0 {
		got, err = f.commit(ctx)
	}
	var refused *refusal
	switch {
	case errors.As(err, &refused) && refused.Code == codeBatchDuplicate:
		return ready, refused
	case errors.As(err, &refused):
		return rest, p.singles(ctx, t, f.sent)
	case err != nil:
		down = classify(err)
		for _, o := range f.sent {
			p.fail(o.index, down)
		}
		return rest, down
	}
	first := got.Seq - int64(got.Count) + 1
	for i, o := range f.sent {
		p.receipts[o.index] = settle.Receipt{At: t.at(o.subject, first+int64(i))}
	}
	return rest, nil
}

// flight is one atomic batch. Encoding and sending overlap with the server's
// work; the last message is held back until it is known to be the last.
type flight struct {
	p  *publication
	t  *topic
	id []string
	// sent are the messages of the batch, the held one included.
	sent []outgoing
	held *nats.Msg
	// spare is the buffer of the message before the held one: the connection
	// has copied it.
	spare []byte
}

// send sends as much of ready as the batch takes, but for the last message.
func (f *flight) send(ready []outgoing) (rest []outgoing, err error) {
	f.sent = make([]outgoing, 0, min(len(ready), maxBatch))
	bytes := 0
	for i, o := range ready {
		if len(f.sent) == maxBatch || bytes >= maxBatchBytes {
			return ready[i:], nil
		}
		if f.p.heldBack(o) {
			continue
		}
		m, size, err := f.p.encode(f.t, o, f.spare[:0])
		if err != nil {
			f.p.fail(o.index, err)
			continue
		}
		bytes += size
		f.sent = append(f.sent, o)
		m.Header[headerBatchID] = f.id
		m.Header[headerBatchSeq] = []string{strconv.Itoa(len(f.sent))}
		f.spare = nil
		if f.held != nil {
			if err := f.p.b.nc.PublishMsg(f.held); err != nil {
				return ready[i+1:], fmt.Errorf("publish batch: %w", err)
			}
			f.spare = f.held.Data
		}
		f.held = m
	}
	return nil, nil
}

// commit sends the last message and returns the answer for the whole batch.
func (f *flight) commit(ctx context.Context) (answer, error) {
	f.held.Header[headerBatchCommit] = []string{"1"}
	got, err := f.p.b.ask(ctx, f.t, f.held)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		// No stream took any of it; the singles will say why.
		return answer{}, &refusal{Code: codeNoStream, Description: err.Error()}
	case err != nil:
		return answer{}, err
	case got.Batch != f.id[0] || got.Count != len(f.sent):
		return answer{}, fmt.Errorf("publish batch of %d: the answer is for %d", len(f.sent), got.Count)
	}
	return got, nil
}

// at says where a record of subject with this sequence is.
func (t *topic) at(subject string, seq int64) settle.Coordinates {
	n, _ := strconv.Atoi(subject[len(t.name)+1:])
	return settle.Coordinates{Topic: t.name, Partition: n, Offset: seq}
}
