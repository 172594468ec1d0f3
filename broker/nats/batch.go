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

// atomic publishes part as one atomic batch: all of it is stored, or nothing.
// It reports whether the receipts are decided; false means that the batch was
// refused as a whole and each message has to be asked for by itself. An error
// means that the broker can't be asked any more now.
//
// Crash here: after the last message is sent the batch may be stored although
// nobody has read the answer. Sent again under the same ids within the
// server's window it is refused as a duplicate, then found one by one.
func (p *publication) atomic(ctx context.Context, t *topic, part []outgoing) (decided bool, down error) {
	select {
	case t.sending <- struct{}{}:
		defer func() { <-t.sending }()
	case <-ctx.Done():
		return true, p.unknown(part, context.Cause(ctx))
	}
	got, err := p.b.askBatch(ctx, t, part)
	var refused *refusal
	if errors.As(err, &refused) {
		for _, o := range part {
			delete(o.msg.Header, headerBatchID)
			delete(o.msg.Header, headerBatchSeq)
			delete(o.msg.Header, headerBatchCommit)
		}
		return false, nil
	}
	if err != nil {
		return true, p.unknown(part, err)
	}
	first := got.Seq - int64(got.Count) + 1
	for i, o := range part {
		p.receipts[o.index] = settle.Receipt{At: t.at(o.msg.Subject, first+int64(i))}
	}
	return true, nil
}

func (p *publication) unknown(part []outgoing, err error) error {
	why := classify(err)
	for _, o := range part {
		p.fail(o.index, why)
	}
	return why
}

func (b *Broker) askBatch(ctx context.Context, t *topic, part []outgoing) (answer, error) {
	id := []string{rand.Text()}
	for i, o := range part {
		o.msg.Header[headerBatchID] = id
		o.msg.Header[headerBatchSeq] = []string{strconv.Itoa(i + 1)}
		if i < len(part)-1 {
			if err := b.nc.PublishMsg(o.msg); err != nil {
				return answer{}, fmt.Errorf("publish batch: %w", err)
			}
		}
	}
	last := part[len(part)-1].msg
	last.Header[headerBatchCommit] = []string{"1"}
	got, err := b.ask(ctx, t, last)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		// No stream took any of it; the singles will say why.
		return answer{}, &refusal{Code: codeNoStream, Description: err.Error()}
	case err != nil:
		return answer{}, err
	case got.Batch != id[0] || got.Count != len(part):
		return answer{}, fmt.Errorf("publish batch of %d: the answer is for %d", len(part), got.Count)
	}
	return got, nil
}

// at says where a record of subject with this sequence is.
func (t *topic) at(subject string, seq int64) settle.Coordinates {
	n, _ := strconv.Atoi(subject[len(t.name)+1:])
	return settle.Coordinates{Topic: t.name, Partition: n, Offset: seq}
}
