package sim

import (
	"errors"
	"hash/fnv"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

var (
	errRefused = errors.New("record refused by policy")
	errFull    = errors.New("topic is full")
	errBroker  = errors.New("no answer")
)

// brokerModel is a broker with partitioned topics. It keeps every record that
// it ever took, for the checks.
type brokerModel struct {
	w      *World
	topics []*topicLog
	// offsets are what groups have acknowledged where the broker assigns.
	offsets []*brokerOffset
	down    bool
	// otherDown: the second broker is.
	otherDown bool
}

type topicLog struct {
	name       string
	generation string
	partitions [][]settle.Record
	seen       map[string]seenID // broker message ids inside the duplicate window
	brokenTill time.Duration     // takes nothing: missing, full, forbidden
	slowTill   time.Duration
}

type seenID struct {
	at   settle.Coordinates
	when time.Duration
}

func newBrokerModel(w *World) *brokerModel {
	b := &brokerModel{w: w}
	for i := range w.Topics {
		b.topics = append(b.topics, newTopicLog(w, topicName(i)))
	}
	for i := 0; w.Routed && i < w.Topics; i++ {
		b.topics = append(b.topics, newTopicLog(w, relay.DestinationName(otherBroker, topicName(i))))
	}
	return b
}

func newTopicLog(w *World, name string) *topicLog {
	return &topicLog{name: name, generation: "life-1", partitions: make([][]settle.Record, w.Partitions), seen: map[string]seenID{}}
}

func topicName(i int) string { return "topic-" + string(rune('a'+i)) }

func (b *brokerModel) topic(name string) *topicLog {
	for _, t := range b.topics {
		if t.name == name {
			return t
		}
	}
	return nil
}

func (b *brokerModel) isDown(broker string) bool {
	if broker == otherBroker {
		return b.otherDown
	}
	return b.down
}

func (b *brokerModel) partition(key string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum32() % uint32(b.w.Partitions))
}

// Publish takes a batch as it arrives and returns what the broker would
// answer. After a refusal no later message of its key is taken; with an atomic
// batch nothing is taken at all.
func (b *brokerModel) Publish(broker string, batch []settle.Message) []settle.Receipt {
	out := make([]settle.Receipt, len(batch))
	failed := map[string]bool{}
	atomic := b.w.AtomicBatches && b.fits(broker, batch)
	for i, m := range batch {
		key := m.Event.Topic + "\x00" + m.Event.Key()
		switch t := b.topic(relay.DestinationName(broker, m.Event.Topic)); {
		case failed[key]:
			out[i].Err = &settle.PublishError{Scope: settle.ScopeBroker, Err: errBroker}
		case t == nil || t.brokenTill > b.w.Since():
			out[i].Err = &settle.PublishError{Scope: settle.ScopeTopic, Err: errFull}
			b.w.probes.hit("topic took nothing")
		case b.w.refuses(m.Event):
			out[i].Err = &settle.PublishError{Scope: settle.ScopeRecord, Err: errRefused}
			b.w.probes.hit("record refused")
			if f := b.w.fates[m.Event.ID]; f.refused > 0 {
				f.refused--
			}
		case !atomic && b.w.chance(b.w.PartialBatch):
			out[i].Err = &settle.PublishError{Scope: settle.ScopeBroker, Err: errBroker}
			b.w.probes.hit("part of a batch got no answer")
			if b.w.chance(0.5) {
				b.take(t, m)
			}
		default:
			out[i].At, out[i].Duplicate = b.take(t, m)
			continue
		}
		failed[key] = true
	}
	return out
}

// fits reports whether every message would be taken, so that an atomic batch
// is; otherwise the publisher falls back to singles.
func (b *brokerModel) fits(broker string, batch []settle.Message) bool {
	for _, m := range batch {
		t := b.topic(relay.DestinationName(broker, m.Event.Topic))
		if t == nil || t.brokenTill > b.w.Since() || b.w.refuses(m.Event) {
			return false
		}
	}
	return true
}

func (b *brokerModel) take(t *topicLog, m settle.Message) (settle.Coordinates, bool) {
	if s, ok := t.seen[m.ID]; ok && b.w.Since()-s.when < b.w.DuplicateWindow {
		b.w.probes.hit("broker knew the message id")
		return s.at, true
	}
	n := b.partition(m.Event.Key())
	log := t.partitions[n]
	pos := int64(1)
	if len(log) > 0 {
		pos = log[len(log)-1].Position + int64(b.w.from(1, 2))
	}
	at := settle.Coordinates{Topic: t.name, Partition: n, Offset: pos}
	if m.Event.Topic != t.name {
		e := *m.Event
		e.Topic, m.Event = t.name, &e
		b.w.probes.hit("event at the second broker")
	}
	t.partitions[n] = append(log, settle.Record{
		Position: pos, Event: m.Event, Raw: m.Event.Payload, Key: m.Event.Key(), RecordedAt: b.w.Now(), At: at,
	})
	t.seen[m.ID] = seenID{at, b.w.Since()}
	b.w.hist.note(b.w.Since(), "broker", "takes", t.name, m.Event.ID, m.Event.AggregateID, pos, m.Epoch)
	b.w.fates[m.Event.ID].from.check.appended(m.Event)
	b.w.wakeConsumers()
	return at, false
}

// foreign appends a record that nobody can understand, as somebody else's
// producer might.
func (b *brokerModel) foreign(t *topicLog) {
	n := b.w.from(0, b.w.Partitions-1)
	pos := int64(1)
	if log := t.partitions[n]; len(log) > 0 {
		pos = log[len(log)-1].Position + 1
	}
	at := settle.Coordinates{Topic: t.name, Partition: n, Offset: pos}
	t.partitions[n] = append(t.partitions[n], settle.Record{
		Position: pos, DecodeErr: errors.New("unexpected end of JSON input"), Raw: []byte(`{"cut`), RecordedAt: b.w.Now(), At: at,
	})
	b.w.probes.hit("foreign record")
	b.w.hist.note(b.w.Since(), "broker", "takes foreign", t.name, n, pos)
	b.w.wakeConsumers()
}

// after returns records of a partition above pos, bounded.
func (t *topicLog) after(partition int, pos int64, maxRecords, maxBytes int) []settle.Record {
	log := t.partitions[partition]
	lo := len(log)
	for lo > 0 && log[lo-1].Position > pos {
		lo--
	}
	hi, bytes := lo, 0
	for hi < len(log) && hi-lo < maxRecords {
		bytes += len(log[hi].Raw)
		if bytes > maxBytes && hi > lo {
			break
		}
		hi++
	}
	return log[lo:hi:hi]
}

// last is the highest position of a partition, with the id found there.
func (t *topicLog) last(partition int) (int64, string) {
	log := t.partitions[partition]
	if len(log) == 0 {
		return 0, ""
	}
	r := log[len(log)-1]
	if r.Event == nil {
		return r.Position, ""
	}
	return r.Position, r.Event.ID
}
