package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/consumelog"
	"github.com/settlemq/settle/store/migrate"
)

// shared is what a transaction knows of, and has done to, a consume log that
// foreign consumers of its group write to as well. What it inserts there for an
// event that is then kept waiting says that the event is in somebody's hands:
// a foreign consumer that gets it leaves it alone.
type shared struct {
	*sharing
	// claimed are the events whose row this transaction has inserted, with the
	// word that it has; seen are rows that were there before.
	claimed map[string]string
	seen    map[string]sharedRow
	// told are the events of which an item has settled what the row says.
	told map[string]bool
}

type sharedRow struct {
	word string
	// at is consumed_at as the server prints it, to be compared.
	at   string
	time time.Time
	// final: our own log says that it is done with, whatever the row says.
	final bool
}

// share returns nil where nobody shares the log.
func (in *Inbox) share() *shared {
	if in.s.shared == nil {
		return nil
	}
	return &shared{sharing: in.s.shared, claimed: map[string]string{}, seen: map[string]sharedRow{}, told: map[string]bool{}}
}

// covers reports whether foreign consumers may have a row of the item.
func (h *shared) covers(group string, it *consumelog.Item) bool {
	return it.Record.Event != nil && h.holds("consumer_group", group) && h.holds("message_id", it.EventID)
}

// queueClaims inserts the rows of new events as if each would end the way its
// intent says. It waits for a foreign consumer that has one in its transaction.
func (h *shared) queueClaims(b *pgx.Batch, a *apply) {
	var ids, keys, words []string
	word := map[string]string{}
	for i := range a.items {
		it := &a.items[i]
		if !recordable(it) || !h.covers(a.w.Group, it) {
			continue
		}
		kind := migrate.ConsumeProcessing
		if it.Intent == settle.IntentHandle {
			kind = migrate.ConsumeSuccess
		}
		if _, before := word[it.EventID]; !before {
			word[it.EventID] = h.word(kind)
			ids, keys, words = append(ids, it.EventID), append(keys, h.cut("biz_key", bizKey(it))), append(words, h.word(kind))
		}
	}
	if len(ids) == 0 {
		return
	}
	b.Queue(h.claim, a.in.s.clock(), a.w.Group, ids, keys, words).Query(func(rows pgx.Rows) error {
		var id string
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			h.claimed[id] = word[id]
			return nil
		})
		return err
	})
}

// bizKey is what people search for.
func bizKey(it *consumelog.Item) string {
	if key := fit(it.Record.Event.BizKey); key != "" {
		return key
	}
	return it.Key
}

// fresh reports whether every new event got its row.
func (h *shared) fresh(a *apply) bool {
	for i := range a.items {
		it := &a.items[i]
		if _, claimed := h.claimed[it.EventID]; !claimed && h.covers(a.w.Group, it) {
			return false
		}
	}
	return true
}

// queueRead reads the rows that were there before.
func (h *shared) queueRead(b *pgx.Batch, a *apply, f *consumelog.Facts) {
	var ids []string
	for _, id := range a.related(f) {
		if _, claimed := h.claimed[id]; !claimed {
			ids = append(ids, id)
		}
	}
	b.Queue(h.lock, a.w.Group, ids)
	b.Queue(h.read, a.w.Group, ids).Query(func(rows pgx.Rows) error {
		var id string
		var r sharedRow
		_, err := pgx.ForEachRow(rows, []any{&id, &r.word, &r.at, &r.time}, func() error {
			h.seen[id] = r
			return nil
		})
		return err
	})
}

// merge makes facts of what foreign consumers have written.
func (h *shared) merge(a *apply, f *consumelog.Facts) {
	retried := map[string]bool{}
	for i := range a.items {
		if a.items[i].RetryID != 0 {
			retried[a.items[i].EventID] = true
		}
	}
	for id, row := range h.seen {
		own, known := f.Logged[id]
		before := known && !a.own[id]
		if !before {
			own.No = 0
		}
		switch {
		case before && consumelog.Final(own.Status):
			row.final = true
			h.seen[id] = row
		case h.is(migrate.ConsumeSuccess, row.word):
			f.Logged[id] = consumelog.LogRow{No: own.No, Status: consumelog.StatusSuccess, Processed: row.time}
		case before && kept(own.Status) && !(retried[id] && row.time.After(own.Processed.Add(time.Second))):
			// We hold it, and the row says so. One that is younger was taken over.
		case h.is(migrate.ConsumeProcessing, row.word) || h.is(migrate.ConsumeFailed, row.word):
			f.Logged[id] = consumelog.LogRow{No: own.No, Status: row.word, Processed: row.time}
		default:
			// Nobody has said what the word means, so it is never taken over.
			f.Logged[id] = consumelog.LogRow{No: own.No, Status: row.word, Processed: a.now}
		}
	}
}

func kept(status string) bool {
	return status == consumelog.StatusParked || status == consumelog.StatusDead
}

// tell writes what a step says into the shared log.
func (h *shared) tell(b *pgx.Batch, a *apply, it *consumelog.Item, s *consumelog.Step) {
	for _, id := range s.Supersede {
		if h.holds("message_id", id) {
			b.Queue(h.finish, a.in.s.clock(), a.w.Group, id, h.word(migrate.ConsumeSuccess))
		}
	}
	if !h.covers(a.w.Group, it) || h.told[it.EventID] {
		return
	}
	row, seen := h.seen[it.EventID]
	_, claimed := h.claimed[it.EventID]
	switch {
	case s.Verdict == settle.VerdictLeftOver && s.Status == "":
		// The row is the foreign consumer's, and our own log says nothing yet.
		if a.own[it.EventID] {
			b.Queue(deleteLog, a.w.Group, it.EventID)
		}
	case s.Forget, s.Verdict == settle.VerdictStored && claimed:
		b.Queue(h.drop, a.w.Group, it.EventID)
	case s.Verdict == settle.VerdictIgnored, s.Verdict == settle.VerdictStored, row.final:
		return
	case seen && h.is(migrate.ConsumeSuccess, row.word):
		if a.own[it.EventID] || it.RetryID != 0 {
			a.foreign(b, it)
		}
	case s.Run || s.Verdict == settle.VerdictDuplicate:
		h.put(b, a, it, h.word(migrate.ConsumeSuccess))
	case s.Status != "":
		h.put(b, a, it, h.word(migrate.ConsumeProcessing))
	}
	h.told[it.EventID] = true
}

// put makes the row of an event say word. What was seen must still be so.
func (h *shared) put(b *pgx.Batch, a *apply, it *consumelog.Item, word string) {
	row, seen := h.seen[it.EventID]
	has, claimed := h.claimed[it.EventID]
	switch {
	case claimed && has == word:
	case claimed:
		b.Queue(h.change, a.w.Group, it.EventID, word)
	case seen:
		b.Queue(h.take, a.in.s.clock(), a.w.Group, it.EventID, word, row.word, row.at).Exec(mustChange)
	default:
		b.Queue(h.claim, a.in.s.clock(), a.w.Group, []string{it.EventID}, []string{h.cut("biz_key", bizKey(it))}, []string{word}).Exec(mustChange)
	}
}

const foreignLog = `INSERT INTO t_message_consume_log
(consumer_group, event_id, event_type, aggregate_id, aggregate_seq, status, attempts, payload_hash, appended_at, processed_at, reason)
VALUES ($2,$3,$4,$5,$6,'SUCCESS',0,$7,$8,` + databaseNow + `,'a foreign consumer of the group has done it')
ON CONFLICT (consumer_group, event_id) DO UPDATE SET processed_no = DEFAULT, status = excluded.status, processed_at = excluded.processed_at, reason = excluded.reason`

// foreign records in our own log what a foreign consumer has done.
func (a *apply) foreign(b *pgx.Batch, it *consumelog.Item) {
	b.Queue(foreignLog, a.in.s.clock(), a.w.Group, it.EventID, it.EventType, it.Key, it.Seq, hashOf(it), nullable(it.Appended))
}
