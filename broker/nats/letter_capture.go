package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
)

// maxAdvisories bounds what a capture keeps: some 400 MB.
const maxAdvisories = 1_000_000

// captureOf names the stream that keeps the advisories of a stream's consumer until
// their letters are kept. What is in it is what is still to do.
func captureOf(stream, consumer string) string { return "settle-dead-" + stream + "-" + consumer }

// capture makes the stream that keeps advisories where it is missing. From then on
// none is lost for want of somebody who listens.
func (b *Broker) capture(ctx context.Context, stream, consumer string) (*jetstream.StreamInfo, error) {
	want := jetstream.StreamConfig{
		Name:        captureOf(stream, consumer),
		Description: "Settle: what consumer " + consumer + " of stream " + stream + " gave up",
		Subjects:    []string{exceededPrefix + stream + "." + consumer, terminatedPrefix + stream + "." + consumer},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardOld,
		Storage:     jetstream.FileStorage,
		Replicas:    b.cfg.Replicas,
		MaxMsgs:     maxAdvisories,
	}
	have, err := b.ensureStream(ctx, want)
	if err != nil {
		return nil, err
	}
	switch c := have.Config; {
	case !slices.Equal(c.Subjects, want.Subjects):
		return nil, unfit(fmt.Sprintf("stream %q exists and its subjects are %s, not %s; rename it, or give the consumer another name", want.Name, strings.Join(c.Subjects, " "), strings.Join(want.Subjects, " ")))
	case c.Storage != jetstream.FileStorage, c.Retention != jetstream.LimitsPolicy, c.MaxAge != 0:
		return nil, unfit(fmt.Sprintf("stream %q exists and does not keep advisories until they are read (storage %s, retention %s, max_age %s); it has to be file, limits and none", want.Name, c.Storage, c.Retention, c.MaxAge))
	}
	return have, nil
}

// ensureStream returns a stream that is there, or makes it.
func (b *Broker) ensureStream(ctx context.Context, want jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	s, err := b.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = b.js.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was quicker
			s, err = b.js.Stream(ctx, want.Name)
		}
	}
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == codeSubjectsTaken {
		return nil, unfit(fmt.Sprintf("stream %q can't be made, because another stream takes %s; limit that one's subjects: %v", want.Name, strings.Join(want.Subjects, " or "), err))
	}
	if err != nil {
		return nil, fmt.Errorf("stream %q: %w", want.Name, err)
	}
	return s.CachedInfo(), nil
}

// unfit is the error of what is there and is not what a bridge needs.
func unfit(why string) *settle.PublishError {
	return &settle.PublishError{Scope: settle.ScopeTopic, Err: errors.New(why)}
}
