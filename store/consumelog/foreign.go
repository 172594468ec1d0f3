package consumelog

import (
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/adopt"
	"github.com/settlemq/settle/store/migrate"
)

// Foreign is what a transaction knows of, and has done to, a consume log that
// foreign consumers of its group write to as well. What it inserts there for an
// event that is then kept waiting says that the event is in somebody's hands:
// a foreign consumer that gets it leaves it alone.
type Foreign struct {
	*adopt.ConsumeLog
	Group string
	// Claimed are the events whose row this transaction has inserted, with the
	// word that it has; Seen are rows that were there before.
	Claimed map[string]string
	Seen    map[string]ForeignRow
	// Apart are events of which the log can't hold a row, because it takes that
	// of another event for it.
	Apart map[string]bool
	// told are the events of which an item has settled what the row says.
	told map[string]bool
}

// ForeignRow is a row of such a log.
type ForeignRow struct {
	Word string
	// At is consumed_at as the server prints it, to be compared.
	At   string
	Time time.Time
	// final: our own log says that it is done with, whatever the row says.
	final bool
}

// Claim is a row to be inserted.
type Claim struct{ EventID, BizKey, Word string }

// NewForeign returns what is known before anything was read.
func NewForeign(log *adopt.ConsumeLog, group string) *Foreign {
	return &Foreign{ConsumeLog: log, Group: group, Claimed: map[string]string{}, Seen: map[string]ForeignRow{}, Apart: map[string]bool{}, told: map[string]bool{}}
}

// Covers reports whether foreign consumers may have a row of the item.
func (f *Foreign) Covers(it *Item) bool {
	return it.Record.Event != nil && !f.Apart[it.EventID] && f.Holds("consumer_group", f.Group) && f.Holds("message_id", it.EventID)
}

// Claims returns the rows of new events as if each would end the way its intent
// says. bizKey is what people search for.
func (f *Foreign) Claims(items []Item, bizKey func(*Item) string) (claims []Claim) {
	seen := map[string]bool{}
	for i := range items {
		it := &items[i]
		fresh := it.RetryID == 0 && it.Intent != settle.IntentIgnore && it.Supersedes == ""
		if !fresh || seen[it.EventID] || !f.Covers(it) {
			continue
		}
		seen[it.EventID] = true
		kind := migrate.ConsumeProcessing
		if it.Intent == settle.IntentHandle {
			kind = migrate.ConsumeSuccess
		}
		claims = append(claims, f.claim(it, f.Word(kind), bizKey))
	}
	return claims
}

func (f *Foreign) claim(it *Item, word string, bizKey func(*Item) string) Claim {
	return Claim{EventID: it.EventID, BizKey: f.Cut("biz_key", bizKey(it)), Word: word}
}

// AllClaimed reports whether every event got its row.
func (f *Foreign) AllClaimed(items []Item) bool {
	for i := range items {
		it := &items[i]
		if _, claimed := f.Claimed[it.EventID]; !claimed && f.Covers(it) {
			return false
		}
	}
	return true
}

// Merge makes facts of what foreign consumers have written. own are the events
// of which this transaction has inserted the row of our own log.
func (f *Foreign) Merge(items []Item, own map[string]bool, facts *Facts) {
	retried := map[string]bool{}
	for i := range items {
		if items[i].RetryID != 0 {
			retried[items[i].EventID] = true
		}
	}
	for id, row := range f.Seen {
		ours, known := facts.Logged[id]
		before := known && !own[id]
		if !before {
			ours.No = 0
		}
		switch kind := f.KindOf(row.Word); {
		case before && Final(ours.Status):
			row.final = true
			f.Seen[id] = row
		case kind == migrate.ConsumeSuccess:
			facts.Logged[id] = LogRow{No: ours.No, Status: StatusSuccess, Processed: row.Time}
		case before && waiting(ours.Status) && !(retried[id] && row.Time.After(ours.Processed.Add(time.Second))):
			// We hold it, and the row says so. One that is younger was taken over.
		case kind != "":
			facts.Logged[id] = LogRow{No: ours.No, Status: row.Word, Processed: row.Time}
		default:
			// Nobody has said what the word means, so it is never taken over.
			facts.Logged[id] = LogRow{No: ours.No, Status: row.Word, Processed: facts.now}
		}
	}
}

// ForeignAct is what is done to a row of the foreign log, or to our own because
// of it.
type ForeignAct int

const (
	// ForeignFinish makes the row say Word unless it says that it is done, and
	// inserts it if there is none.
	ForeignFinish ForeignAct = iota
	// ForeignDrop deletes the row.
	ForeignDrop
	// ForeignClaim inserts the row; it must not be there.
	ForeignClaim
	// ForeignChange makes the row, which this transaction has inserted, say Word.
	ForeignChange
	// ForeignTake makes the row say Word. It must still be as it was seen, in Was.
	ForeignTake
	// OwnForget deletes the row of our own log.
	OwnForget
	// OwnRecord records in our own log what a foreign consumer has done.
	OwnRecord
)

// ForeignWrite is one write.
type ForeignWrite struct {
	Act ForeignAct
	Claim
	Was ForeignRow
}

// Tell returns what is written because of a step. own is whether this
// transaction has inserted the row of our own log.
func (f *Foreign) Tell(it *Item, s *Step, own bool, bizKey func(*Item) string) (writes []ForeignWrite) {
	for _, id := range s.Supersede {
		if f.Holds("message_id", id) {
			writes = append(writes, ForeignWrite{Act: ForeignFinish, Claim: Claim{EventID: id, BizKey: f.Cut("biz_key", bizKey(it)), Word: f.Word(migrate.ConsumeSuccess)}})
		}
	}
	if !f.Covers(it) || f.told[it.EventID] {
		return writes
	}
	row, seen := f.Seen[it.EventID]
	_, claimed := f.Claimed[it.EventID]
	act := func(a ForeignAct) { writes = append(writes, ForeignWrite{Act: a, Claim: Claim{EventID: it.EventID}}) }
	switch {
	case s.Verdict == settle.VerdictLeftOver && s.Status == "":
		// The row is the foreign consumer's, and our own log says nothing yet.
		if own {
			act(OwnForget)
		}
	case s.Forget, s.Verdict == settle.VerdictStored && claimed:
		act(ForeignDrop)
	case s.Verdict == settle.VerdictIgnored, s.Verdict == settle.VerdictStored, row.final:
		return writes
	case seen && f.Is(migrate.ConsumeSuccess, row.Word):
		if own || it.RetryID != 0 {
			act(OwnRecord)
		}
	case s.Run || s.Verdict == settle.VerdictDuplicate:
		writes = append(writes, f.say(it, f.Word(migrate.ConsumeSuccess), bizKey)...)
	case s.Status != "":
		writes = append(writes, f.say(it, f.Word(migrate.ConsumeProcessing), bizKey)...)
	}
	f.told[it.EventID] = true
	return writes
}

// say makes the row of an event say word. What was seen must still be so.
func (f *Foreign) say(it *Item, word string, bizKey func(*Item) string) []ForeignWrite {
	w := ForeignWrite{Claim: f.claim(it, word, bizKey)}
	has, claimed := f.Claimed[it.EventID]
	row, seen := f.Seen[it.EventID]
	switch {
	case claimed && has == word:
		return nil
	case claimed:
		w.Act = ForeignChange
	case seen:
		w.Act, w.Was = ForeignTake, row
	default:
		w.Act = ForeignClaim
	}
	return []ForeignWrite{w}
}
