package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// answer is what a stream says to a publish.
type answer struct {
	Error     *refusal `json:"error"`
	Stream    string   `json:"stream"`
	Seq       int64    `json:"seq"`
	Duplicate bool     `json:"duplicate"`
	Batch     string   `json:"batch"`
	Count     int      `json:"count"`
}

// electionPoll is how soon a topic of a cluster is asked again while nobody
// listens: its servers choose a leader, or have not heard of it yet. Nothing is
// stored meanwhile.
const electionPoll = 25 * time.Millisecond

// ask sends m as a request and waits for the stream's answer. A *refusal says
// that nothing was stored; with any other error the outcome is unknown, but
// for one that says so. Only the expected stream and a sequence count as
// stored: any subscriber of the subject could have answered.
func (b *Broker) ask(ctx context.Context, t *topic, m *nats.Msg) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	b.denied.Delete(m.Subject)
	reply, err := b.nc.RequestMsgWithContext(ctx, m)
	for t.copies > 1 && errors.Is(err, nats.ErrNoResponders) && pause(ctx, electionPoll) {
		reply, err = b.nc.RequestMsgWithContext(ctx, m)
	}
	if err != nil {
		return answer{}, b.unanswered(ctx, t, m.Subject, err)
	}
	var a answer
	switch err := json.Unmarshal(reply.Data, &a); {
	case err != nil:
		return answer{}, fmt.Errorf("the answer is not a stream's: %w", err)
	case a.Error != nil:
		if a.Error.Code == codeNoStream {
			b.forget(t.name)
		}
		return answer{}, a.Error
	case a.Stream != t.stream || a.Seq <= 0:
		return answer{}, fmt.Errorf("stream %q answered with sequence %d, expected was stream %q", a.Stream, a.Seq, t.stream)
	}
	return a, nil
}

// unanswered finds out why there was no answer. A stream that is gone while a
// plain subscriber listens looks like a time-out, so the stream is looked up
// again before the topic is used again.
func (b *Broker) unanswered(ctx context.Context, t *topic, subject string, err error) error {
	if why, ok := b.denied.Load(subject); ok {
		return &refusal{Code: codeNoStream, Description: fmt.Sprint(why)}
	}
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) {
		b.forget(t.name)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
