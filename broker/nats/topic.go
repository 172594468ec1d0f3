package nats

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
)

const (
	// metaPartitions is where a stream records how many partitions it has.
	metaPartitions = "settle-partitions"
	// dupWindow is how long the server remembers message ids. It saves second
	// copies; nothing rests on it.
	dupWindow = 2 * time.Minute
)

// topic is a stream that was found to keep what the topic promises.
type topic struct {
	name, stream string
	subjects     []string
	// copies are those of the stream, 1 where there is no cluster.
	copies int
	// sending is held by the one atomic batch in flight.
	sending chan struct{}
}

// topic returns a topic after it was declared, or checked. An error is a
// *settle.PublishError of ScopeTopic, of ScopeBroker when the broker did not
// answer, or of ScopeRecord when there can be no such topic.
func (b *Broker) topic(ctx context.Context, name string) (*topic, error) {
	if name == "" {
		name = settle.DefaultTopic
	}
	b.mu.Lock()
	t := b.topics[name]
	b.mu.Unlock()
	if t != nil {
		return t, nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	info, err := b.declare(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("topic %q: %w", name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.topics[name] == nil {
		b.topics[name] = &topic{name: name, stream: info.Config.Name, subjects: info.Config.Subjects, copies: info.Config.Replicas, sending: make(chan struct{}, 1)}
	}
	return b.topics[name], nil
}

// forget makes the next use look at the stream again.
func (b *Broker) forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.topics, name)
}

func (b *Broker) declare(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	if why := badSubject(name); why != "" {
		// No waiting makes it one: it is the event's own, and others go on.
		return nil, &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(errors.New(why))}
	}
	want := b.spec(name)
	declared := b.cfg.Declare || slices.Contains(b.cfg.Topics, name)
	stream, err := b.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) && declared {
		stream, err = b.js.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was quicker
			stream, err = b.js.Stream(ctx, want.Name)
		}
	}
	if lacksServers(err) {
		return nil, &settle.PublishError{Scope: settle.ScopeTopic, Err: fmt.Errorf("make it with %d copies: the cluster has too few servers that are up and have room; replicas=1 in the URL makes topics with one: %w", want.Replicas, err)}
	}
	if err != nil {
		return nil, classify(err)
	}
	info := stream.CachedInfo()
	if why := differs(info.Config, want, declared); why != "" {
		return nil, &settle.PublishError{Scope: settle.ScopeTopic, Err: fmt.Errorf("stream %q exists and differs: %s", want.Name, why)}
	}
	return info, nil
}

// lacksServers reports whether there are fewer servers than copies to be made.
func lacksServers(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == codeNoPeers || api.ErrorCode == codeNotClustered)
}

func (b *Broker) spec(name string) jetstream.StreamConfig {
	subjects := make([]string, b.cfg.Partitions)
	for i := range subjects {
		subjects[i] = name + "." + strconv.Itoa(i)
	}
	return jetstream.StreamConfig{
		Name:               StreamName(name),
		Description:        "Settle topic " + name,
		Subjects:           subjects,
		Retention:          jetstream.LimitsPolicy,
		Discard:            jetstream.DiscardNew,
		Storage:            jetstream.FileStorage,
		Replicas:           b.cfg.Replicas,
		MaxBytes:           b.cfg.MaxBytes,
		MaxAge:             b.cfg.KeepFor,
		MaxConsumers:       100_000,
		Duplicates:         min(dupWindow, b.cfg.KeepFor),
		AllowAtomicPublish: true,
		Metadata:           map[string]string{metaPartitions: strconv.Itoa(b.cfg.Partitions)},
	}
}

// differs names the first setting by which an existing stream breaks what a
// topic promises or, if it is declared here, was declared to be.
func differs(have, want jetstream.StreamConfig, declared bool) string {
	n, err := strconv.Atoi(have.Metadata[metaPartitions])
	subject := strings.TrimSuffix(want.Subjects[0], "0")
	switch {
	case err != nil || n <= 0:
		return "its metadata has no " + metaPartitions + ", so it was not made for Settle"
	case declared && n != len(want.Subjects):
		return fmt.Sprintf("it has %d partitions, declared are %d; the number is fixed when a topic is made", n, len(want.Subjects))
	case !sameSubjects(have.Subjects, subject, n):
		return fmt.Sprintf("its subjects are %s, not %s0 to %s%d", strings.Join(have.Subjects, " "), subject, subject, n-1)
	case have.Storage != jetstream.FileStorage:
		return "its storage is memory; a topic is kept in files"
	case have.PersistMode != jetstream.DefaultPersistMode:
		return "its persist mode is async; an acknowledgement would prove nothing"
	case have.Retention != jetstream.LimitsPolicy:
		return fmt.Sprintf("its retention is %s; a topic keeps records by limits alone", have.Retention)
	case have.Discard != jetstream.DiscardNew:
		return "it discards old records when it is full; a topic refuses new ones"
	case have.MaxMsgs > 0 || have.MaxMsgsPerSubject > 0:
		return "it limits the number of records"
	case !have.AllowAtomicPublish:
		return "it does not allow atomic batches"
	case declared && have.MaxBytes != want.MaxBytes:
		return fmt.Sprintf("it keeps at most %d bytes, declared are %d", have.MaxBytes, want.MaxBytes)
	case declared && have.MaxAge != want.MaxAge:
		return fmt.Sprintf("it keeps records for %s, declared is %s", have.MaxAge, want.MaxAge)
	}
	return ""
}

func sameSubjects(have []string, prefix string, n int) bool {
	if len(have) != n {
		return false
	}
	for i, s := range have {
		if s != prefix+strconv.Itoa(i) {
			return false
		}
	}
	return true
}

// StreamName returns the name of the stream that keeps a topic: the topic
// itself where it consists of letters, digits, - and _; other bytes are
// written as =XX.
func StreamName(topic string) string {
	var name strings.Builder
	for i := range len(topic) {
		switch c := topic[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			name.WriteByte(c)
		default:
			fmt.Fprintf(&name, "=%02X", c)
		}
	}
	if name.Len() > 200 { // the server takes 255
		sum := sha256.Sum256([]byte(topic))
		return name.String()[:160] + "=" + hex.EncodeToString(sum[:16])
	}
	return name.String()
}

// badSubject says why a topic can't be the beginning of a subject.
func badSubject(topic string) string {
	switch {
	case strings.HasPrefix(topic, "$"), strings.HasPrefix(topic, "_INBOX"):
		return "a topic may not begin like the server's own subjects"
	case strings.ContainsAny(topic, " \t\r\n*>"):
		return "a topic on NATS may contain no space, * or >"
	case strings.HasPrefix(topic, "."), strings.HasSuffix(topic, "."), strings.Contains(topic, ".."):
		return "a topic on NATS may not begin or end with a dot or have two in a row"
	}
	return ""
}
