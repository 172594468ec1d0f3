package kafka

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/internal/deadletter"
)

// Return implements bridge.Source. The partition is the key's; the record's time
// is now, since retention counts from it.
func (s *letterSource) Return(ctx context.Context, r bridge.Return) error {
	record, err := s.way(r)
	if err != nil {
		return &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(fmt.Errorf("return dead letter %s: %w", r.Letter.Identity, err))}
	}
	if err := s.b.begin(); err != nil {
		return &settle.PublishError{Scope: settle.ScopeBroker, Err: err}
	}
	defer s.b.calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.b.end, cancel)()
	if err := s.b.sendAlone(ctx, record); err != nil {
		if isAny(err, kerr.UnknownTopicID, kerr.UnknownTopicOrPartition) {
			s.b.renew()
		}
		return classify(err)
	}
	return nil
}

// way finds where a letter goes, and makes it the record that it was.
func (s *letterSource) way(r bridge.Return) (*kgo.Record, error) {
	if !slices.Contains(s.targets(r.Letter, r.Letter.Record.Headers[dltGroup]), r.To) {
		return nil, fmt.Errorf("it can't go to %q", r.To)
	}
	record, err := unwrap(r)
	if err != nil {
		return nil, err
	}
	from := r.Letter.From
	if r.To == bridge.ToOrigin {
		record.Topic = from.Topic
		return record, nil
	}
	record.Topic = s.g.Retry
	if from.Topic != "" {
		origin := deadletter.Origin{Topic: from.Topic, Partition: from.Partition, Offset: from.Offset}
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: deadletter.HeaderOrigin, Value: []byte(origin.String())})
	}
	return record, nil
}

// sendAlone publishes one record and waits for its answer. The record has the
// context that ends the wait; a flush that ended before would leave it where it
// is.
func (b *Broker) sendAlone(ctx context.Context, record *kgo.Record) error {
	with, err := b.producer(ctx)
	if err != nil {
		return err
	}
	defer b.release(with)
	answer := make(chan error, 1)
	with.cl.Produce(ctx, record, func(_ *kgo.Record, err error) { answer <- err })
	flushing, end := context.WithCancel(context.Background())
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		_ = with.cl.Flush(flushing) // it fails when it is ended here
	}()
	// Crash here: the record may be there. It is sent again under the same id.
	err = <-answer
	end()
	<-flushed
	return err
}
