package outboxlog

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/settlemq/settle/relay"
)

// PackSent writes where the broker keeps what it acknowledged, as JSON that a
// query can take apart: [[topic, partition, offset, sent_at - now in µs,
// [id - low, …]], …]. Rows of one partition whose offsets follow one another are
// a group, and of each only its id is written. low and high are the lowest and
// the highest id; there must be one.
func PackSent(sent []relay.Sent, now time.Time) (low, high int64, packed string) {
	order := inOrder(sent)
	low, high = ends(order)
	out := append(make([]byte, 0, 8*len(order)+64), '[')
	for i := range order {
		s := &order[i]
		if i > 0 && follows(&order[i-1], s) {
			out = strconv.AppendInt(append(out, ','), s.ID-low, 10)
			continue
		}
		if i > 0 {
			out = append(out, "]],"...)
		}
		out = append(appendJSON(append(out, '['), s.At.Topic), ',')
		out = appendGroup(out, s, low, now)
	}
	return low, high, string(append(out, "]]]"...))
}

// PackSentByTopic is PackSent in the form {topic: [[partition, offset, sent_at -
// now in µs, [id - low, …]], …], …}.
func PackSentByTopic(sent []relay.Sent, now time.Time) (low, high int64, packed string) {
	order := inOrder(sent)
	low, high = ends(order)
	out := append(make([]byte, 0, 8*len(order)+64), '{')
	for i := range order {
		s := &order[i]
		same := i > 0 && order[i-1].At.Topic == s.At.Topic
		switch {
		case same && follows(&order[i-1], s):
			out = strconv.AppendInt(append(out, ','), s.ID-low, 10)
			continue
		case same:
			out = append(out, "]],["...)
		case i > 0:
			out = append(appendJSON(append(out, "]]],"...), s.At.Topic), ":[["...)
		default:
			out = append(appendJSON(out, s.At.Topic), ":[["...)
		}
		out = appendGroup(out, s, low, now)
	}
	return low, high, string(append(out, "]]]}"...))
}

// ends are the lowest and the highest id.
func ends(sent []relay.Sent) (low, high int64) {
	low, high = sent[0].ID, sent[0].ID
	for i := range sent {
		low, high = min(low, sent[i].ID), max(high, sent[i].ID)
	}
	return low, high
}

// appendGroup begins a group: where its first row is, when it was sent, its id.
func appendGroup(out []byte, s *relay.Sent, low int64, now time.Time) []byte {
	out = strconv.AppendInt(out, int64(s.At.Partition), 10)
	out = strconv.AppendInt(append(out, ','), s.At.Offset, 10)
	out = strconv.AppendInt(append(out, ','), s.SentAt.UnixMicro()-now.UnixMicro(), 10)
	return strconv.AppendInt(append(out, ",["...), s.ID-low, 10)
}

// inOrder returns what was sent by topic, partition and offset; a broker that
// says no topic means the destination's. Most of the time it is in order.
func inOrder(sent []relay.Sent) []relay.Sent {
	complete := func(s relay.Sent) bool { return s.At.Topic != "" }
	if slices.IsSortedFunc(sent, compareSent) && complete(sent[0]) {
		return sent
	}
	order := slices.Clone(sent)
	for i := range order {
		if !complete(order[i]) {
			order[i].At.Topic = order[i].Destination
		}
	}
	slices.SortStableFunc(order, compareSent)
	return order
}

func compareSent(a, b relay.Sent) int {
	return cmp.Or(cmp.Compare(a.At.Topic, b.At.Topic), cmp.Compare(a.At.Partition, b.At.Partition), cmp.Compare(a.At.Offset, b.At.Offset))
}

func follows(a, b *relay.Sent) bool {
	return a.At.Topic == b.At.Topic && a.At.Partition == b.At.Partition && a.At.Offset+1 == b.At.Offset && a.SentAt.Equal(b.SentAt)
}
