package nats

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
)

const (
	// pullExpiry ends a pull that found too little; the next one follows.
	pullExpiry = 5 * time.Second
	// heartbeat is how often the server says that it still serves a pull.
	heartbeat = time.Second
	// silence is how long nothing may be heard during a pull.
	silence = 5 * heartbeat / 2
	// spareMessages is room in the inbox for what the server says itself.
	spareMessages = 64
)

var (
	errConsumerGone = errors.New("the consumer is gone")
	errSilence      = errors.New("the broker said nothing during a pull")
)

// fetch asks one consumer for records, a bounded number at a time, and accepts
// only an unbroken sequence. One pull is open while records are delivered, so
// that the next batch is there when the sink is done.
type fetch struct {
	r        *reader
	consumer jetstream.Consumer
	subject  string
	inbox    chan *nats.Msg
	sub      *nats.Subscription
	// open is how many records the pull may still bring.
	open int
	// sequence is the consumer's own number of the last accepted record.
	sequence uint64
	position int64
	// heard is when the server last said something, or could first have been
	// listened to again.
	heard time.Time
	// ahead is a record that did not fit the last batch.
	ahead *settle.Record
}

func (r *reader) open(consumer jetstream.Consumer) (*fetch, error) {
	f := &fetch{
		r: r, consumer: consumer, position: r.floor.Position, heard: time.Now(),
		subject: "$JS.API.CONSUMER.MSG.NEXT." + r.topic.stream + "." + consumer.CachedInfo().Name,
		inbox:   make(chan *nats.Msg, r.s.MaxRecords+spareMessages),
	}
	var err error
	f.sub, err = r.b.nc.ChanSubscribe(r.b.nc.NewInbox(), f.inbox)
	return f, err
}

func (f *fetch) close() { _ = f.sub.Unsubscribe() }

// pull asks for the next records when the last pull has ended and all it
// brought was taken.
func (f *fetch) pull() error {
	if f.open > 0 || len(f.inbox) > 0 {
		return nil
	}
	// A record larger than max_bytes would never come.
	ask, err := json.Marshal(map[string]int64{
		"batch": int64(f.r.s.MaxRecords), "expires": int64(pullExpiry), "idle_heartbeat": int64(heartbeat),
		"max_bytes": max(int64(f.r.s.MaxBytes), f.r.b.nc.MaxPayload()+4096),
	})
	if err != nil {
		return err
	}
	f.open = f.r.s.MaxRecords
	return f.r.b.nc.PublishRequest(f.subject, f.sub.Subject, ask)
}

// next waits for records, for a moment or until the partition is idle, and
// returns what is there within the subscription's bounds: none when idle.
func (f *fetch) next(ctx context.Context) ([]settle.Record, error) {
	var batch []settle.Record
	size := 0
	if f.ahead != nil {
		batch, size = append(batch, *f.ahead), len(f.ahead.Raw)
		f.ahead = nil
	}
	if err := f.pull(); err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	if len(batch) == 0 {
		m, err := f.wait(ctx)
		if m == nil || err != nil {
			return nil, err
		}
		if batch, err = f.take(batch, m); err != nil {
			return nil, err
		}
		if len(batch) > 0 {
			size = len(batch[0].Raw)
		}
	}
	for len(batch) < f.r.s.MaxRecords {
		var m *nats.Msg
		select {
		case m = <-f.inbox:
		default:
			return batch, f.pull()
		}
		n := len(batch)
		var err error
		if batch, err = f.take(batch, m); err != nil {
			return nil, err
		}
		if len(batch) == n {
			continue
		}
		if size += len(batch[n].Raw); size > f.r.s.MaxBytes && n > 0 {
			f.ahead, batch = &batch[n], batch[:n]
			break
		}
	}
	return batch, f.pull()
}

// wait returns the next message, or none when it is time to look whether the
// partition is idle.
func (f *fetch) wait(ctx context.Context) (*nats.Msg, error) {
	timer := time.NewTimer(min(silence, f.r.b.cfg.IdleAfter))
	defer timer.Stop()
	select {
	case m := <-f.inbox:
		f.heard = time.Now()
		return m, nil
	case <-timer.C:
		if time.Since(f.heard) > silence {
			return nil, errSilence
		}
		return nil, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// take adds a record to batch, or notes what the server says of the pull.
func (f *fetch) take(batch []settle.Record, m *nats.Msg) ([]settle.Record, error) {
	if status := m.Header.Get("Status"); status != "" && len(m.Data) == 0 && m.Reply == "" {
		return batch, f.said(status, m.Header.Get("Description"))
	}
	md, err := m.Metadata()
	if err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	if md.Sequence.Consumer != f.sequence+1 || int64(md.Sequence.Stream) <= f.position {
		return nil, fmt.Errorf("record %d came as number %d of the consumer, expected was %d", md.Sequence.Stream, md.Sequence.Consumer, f.sequence+1)
	}
	f.sequence++
	f.position = int64(md.Sequence.Stream)
	f.open--
	return append(batch, f.r.topic.record(m, md)), nil
}

// said takes a status of the server: 100 it is still there; 404, 408 and some
// 409 the pull has ended; anything else the consumer has.
func (f *fetch) said(status, description string) error {
	switch status {
	case "100":
		return nil
	case "404", "408":
		f.open = 0
		return nil
	case "409":
		if strings.Contains(description, "Exceeds MaxBytes") || strings.Contains(description, "Completed") {
			f.open = 0
			return nil
		}
	}
	return fmt.Errorf("%w: %s %s", errConsumerGone, status, description)
}

// exhausted reports whether all that the consumer has for us was received.
// Its caller has delivered all that was received.
func (f *fetch) exhausted(ctx context.Context) (bool, error) {
	if f.ahead != nil || len(f.inbox) > 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.r.b.cfg.Timeout)
	defer cancel()
	info, err := f.consumer.Info(ctx)
	if err != nil {
		return false, fmt.Errorf("ask for consumer: %w", err)
	}
	return info.NumPending == 0 && info.Delivered.Consumer == f.sequence, nil
}

// consumerName is never used twice: a name that exists returns the old
// consumer at its old position, without an error.
func consumerName(group string, partition int) string {
	return "settle-" + StreamName(group) + "-" + strconv.Itoa(partition) + "-" + rand.Text()
}
