package memory

import (
	"crypto/rand"
	"sort"
	"time"

	"github.com/settlemq/settle"
)

// topic is a log split into partitions. Positions count through the whole
// topic, so those of one partition rise with gaps, as on JetStream.
type topic struct {
	generation string
	last       int64
	bytes      int64
	partitions []partition
	ids        map[string]place
	// recent holds the ids in the order they came, to forget the oldest.
	recent []remembered
}

type partition struct {
	entries []entry
	// changed is closed, and replaced, when an entry is added.
	changed chan struct{}
}

type entry struct {
	position int64
	id, key  string
	value    []byte
	headers  [][2]string
	at       time.Time
}

type place struct {
	partition int
	position  int64
}

type remembered struct {
	id string
	at time.Time
}

func newTopic(partitions int) *topic {
	t := &topic{generation: rand.Text(), partitions: make([]partition, partitions), ids: map[string]place{}}
	for i := range t.partitions {
		t.partitions[i].changed = make(chan struct{})
	}
	return t
}

func (e entry) size() int {
	n := len(e.value)
	for _, h := range e.headers {
		n += len(h[0]) + len(h[1]) + 4
	}
	return n
}

func (e entry) record(topic string, partition int) settle.Record {
	headers := make(map[string]string, len(e.headers))
	for _, h := range e.headers {
		headers[h[0]] = h[1]
	}
	value := append([]byte(nil), e.value...)
	r := settle.Record{
		Position: e.position, Raw: value, Headers: headers, Key: e.key, RecordedAt: e.at,
		At: settle.Coordinates{Topic: topic, Partition: partition, Offset: e.position},
	}
	r.Event, r.DecodeErr = settle.DecodeEnvelope(value, headers)
	if r.Event != nil {
		r.Key, r.Event.Topic = r.Event.Key(), topic
	}
	return r
}

// eventID is the id in the envelope, empty for a foreign record.
func (e entry) eventID() string {
	if event, err := settle.DecodeEnvelope(e.value, nil); err == nil {
		return event.ID
	}
	return ""
}

// seen looks an id up after it has forgotten the ids older than window.
func (t *topic) seen(id string, now time.Time, window time.Duration) (place, bool) {
	old := 0
	for old < len(t.recent) && now.Sub(t.recent[old].at) > window {
		delete(t.ids, t.recent[old].id)
		old++
	}
	t.recent = t.recent[old:]
	at, ok := t.ids[id]
	return at, ok && id != ""
}

func (t *topic) append(n int, e entry, window time.Duration) int64 {
	t.last++
	e.position = t.last
	t.bytes += int64(e.size())
	p := &t.partitions[n]
	p.entries = append(p.entries, e)
	close(p.changed)
	p.changed = make(chan struct{})
	if e.id != "" && window > 0 {
		t.ids[e.id] = place{partition: n, position: e.position}
		t.recent = append(t.recent, remembered{id: e.id, at: e.at})
	}
	return e.position
}

// after returns the entries of a partition behind position, at most limit and
// (but for the first) at most size bytes of them.
func (t *topic) after(n int, position int64, limit, size int) []entry {
	all := t.partitions[n].entries
	from := sort.Search(len(all), func(i int) bool { return all[i].position > position })
	to, bytes := from, 0
	for to < len(all) && to-from < limit {
		bytes += all[to].size()
		if bytes > size && to > from {
			break
		}
		to++
	}
	return all[from:to:to]
}

// at finds the entry at a position of the whole topic.
func (t *topic) at(position int64) (entry, bool) {
	for _, p := range t.partitions {
		i := sort.Search(len(p.entries), func(i int) bool { return p.entries[i].position >= position })
		if i < len(p.entries) && p.entries[i].position == position {
			return p.entries[i], true
		}
	}
	return entry{}, false
}
