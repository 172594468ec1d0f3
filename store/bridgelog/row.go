package bridgelog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/consumelog"
)

// Side is t_dead_letter.service_side of a letter of a consumer that is not ours.
const Side = "bridge"

// maxField bounds what is indexed, in bytes; maxReason a reason.
const (
	maxField  = 191
	maxReason = 8 << 10
)

// Row is a letter as the stores keep it: columns of t_dead_letter, and Told for
// t_bridged_letter.
type Row struct {
	Identity, EventID, EventType     string
	AggregateType, AggregateID       string
	AggregateSeq                     int64
	BizKey, TraceID                  string
	Class, Reason                    string
	Attempts                         int
	Topic                            string
	Partition                        int
	Offset                           int64
	AppendedAt, RecordedAt, DiedAt   time.Time
	RecordKey, Raw, Payload, Headers []byte
	Told                             []byte
	ReturnID                         string
}

// told is what only t_bridged_letter keeps. Headers are pairs of bytes: those of
// Kafka may be any, which no text column takes.
type told struct {
	At        govern.Place    `json:"at"`
	From      govern.Place    `json:"from"`
	Exception string          `json:"exception,omitempty"`
	Message   string          `json:"message,omitempty"`
	Trace     string          `json:"trace,omitempty"`
	History   []govern.Death  `json:"history,omitempty"`
	To        []govern.Target `json:"to,omitempty"`
	ReturnID  string          `json:"return_id,omitempty"`
	Headers   [][2][]byte     `json:"headers,omitempty"`
	Wrapping  []byte          `json:"wrapping,omitempty"`
	// Record is the place of the record as Letter.Record has it.
	Record settle.Coordinates `json:"record,omitzero"`
}

// rowOf makes a letter's row. A letter without an identity is an error of its
// source.
func rowOf(l *bridge.Letter) (Row, error) {
	if l.Identity == "" || len(l.Identity) > bridge.MaxIdentity {
		return Row{}, fmt.Errorf("keep dead letter of group %s: its identity has %d bytes; it must have 1 to %d", l.Group, len(l.Identity), bridge.MaxIdentity)
	}
	e := l.Record.Event
	if e == nil {
		// One that can't be understood has no event id; it is found by its own.
		e = &settle.Event{ID: l.Identity, AggregateID: l.Record.Key}
	}
	headers, err := json.Marshal(l.Record.Headers)
	if err != nil {
		return Row{}, fmt.Errorf("encode headers: %w", err)
	}
	kept, err := json.Marshal(told{
		At: l.At, From: l.From, Exception: l.Exception, Message: l.Message, Trace: l.Trace, History: dated(l.History), To: l.To,
		ReturnID: l.ReturnID, Headers: pairs(l.Record.Headers), Wrapping: l.Wrapping, Record: l.Record.At,
	})
	if err != nil {
		return Row{}, fmt.Errorf("encode what it tells: %w", err)
	}
	recorded := consumelog.Date(l.Record.RecordedAt)
	return Row{
		Identity: l.Identity, EventID: fit(e.ID), EventType: fit(e.Type), AggregateType: fit(e.AggregateType), AggregateID: fit(e.AggregateID),
		AggregateSeq: e.AggregateSeq, BizKey: fit(cmp.Or(e.BizKey, e.AggregateID)), TraceID: fit(e.TraceID),
		Class: string(cmp.Or(l.Class, settle.ClassHandler)), Reason: reason(l), Attempts: min(max(l.Attempts, 0), math.MaxInt32),
		Topic: fit(cmp.Or(l.At.Topic, l.At.Queue)), Partition: l.At.Partition, Offset: l.At.Offset,
		AppendedAt: consumelog.Date(e.AppendedAt), RecordedAt: recorded, DiedAt: cmp.Or(consumelog.Date(l.DiedAt), recorded),
		RecordKey: []byte(l.Record.Key), Raw: bytesOf(l.Record.Raw), Payload: bytesOf(e.Payload), Headers: headers,
		Told: kept, ReturnID: l.ReturnID,
	}, nil
}

// dated returns deaths whose times can be kept.
func dated(history []govern.Death) []govern.Death {
	kept := slices.Clone(history)
	for i := range kept {
		kept[i].At = consumelog.Date(kept[i].At)
	}
	return kept
}

func bytesOf(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// pairs are headers as they are, whatever their bytes.
func pairs(headers map[string]string) [][2][]byte {
	all := make([][2][]byte, 0, len(headers))
	for name, value := range headers {
		all = append(all, [2][]byte{[]byte(name), []byte(value)})
	}
	return all
}

// reason says in a line why the consumer has given up.
func reason(l *bridge.Letter) string {
	why := l.Message
	if l.Exception != "" {
		why = strings.TrimSuffix(l.Exception+": "+l.Message, ": ")
	}
	if why == "" && l.Record.DecodeErr != nil {
		why = l.Record.DecodeErr.Error()
	}
	if why == "" {
		why = "its consumer has not said why"
	}
	why = strings.ToValidUTF8(why, "\uFFFD")
	if len(why) > maxReason {
		why = strings.ToValidUTF8(why[:maxReason], "") + "…"
	}
	return strings.ReplaceAll(why, "\x00", "\uFFFD")
}

// fit makes a name, which a foreign producer may have chosen, one that every
// column takes: what is too long, or no text, ends in its digest. The same one
// always becomes the same; the record itself is kept as it was found.
func fit(s string) string {
	kept := strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if kept == s && len(s) <= maxField {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	digest := "…" + hex.EncodeToString(sum[:])
	return strings.ToValidUTF8(kept[:min(len(kept), maxField-len(digest))], "") + digest
}

// Due is how long a person has to decide about a dead letter.
const Due = 24 * time.Hour

// OrderOf makes an order of what is kept of a letter.
func OrderOf(id int64, group, identity string, to govern.Target, tries int, recordKey, raw, kept []byte, recordedAt time.Time) (bridge.Order, error) {
	var t told
	if err := json.Unmarshal(kept, &t); err != nil {
		return bridge.Order{}, fmt.Errorf("read what dead letter %d tells: %w", id, err)
	}
	headers := make(map[string]string, len(t.Headers))
	for _, p := range t.Headers {
		headers[string(p[0])] = string(p[1])
	}
	return bridge.Order{ID: id, Tries: tries, Return: bridge.Return{ID: identity, To: to, Letter: bridge.Letter{
		Identity: identity, Group: group, At: t.At, From: t.From, Exception: t.Exception, Message: t.Message, Trace: t.Trace, History: t.History,
		To: t.To, ReturnID: t.ReturnID, Wrapping: t.Wrapping,
		Record: settle.Record{Raw: raw, Headers: headers, Key: string(recordKey), RecordedAt: recordedAt, At: t.Record},
	}}}, nil
}

// Tell fills b with what is kept of a letter. What can't be read is told as
// nothing: the raw record is there.
func Tell(b *govern.Bridged, kept []byte) {
	var t told
	if json.Unmarshal(kept, &t) != nil {
		return
	}
	b.At, b.From, b.Exception, b.Message, b.Trace, b.History, b.To = t.At, t.From, t.Exception, t.Message, t.Trace, t.History, t.To
}

// RowsOf makes the rows of letters, each identity once.
func RowsOf(letters []bridge.Letter) ([]Row, error) {
	rows := make([]Row, 0, len(letters))
	seen := make(map[string]bool, len(letters))
	for i := range letters {
		if seen[letters[i].Identity] {
			continue
		}
		seen[letters[i].Identity] = true
		r, err := rowOf(&letters[i])
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// Leapt is what is left at most of a lease that was given for ttl; one that has
// more was written before the clock was set back.
func Leapt(ttl time.Duration) time.Duration { return 2*ttl + time.Minute }
