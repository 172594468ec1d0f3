package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/store/consumelog"
)

// shared is what a transaction knows of, and has done to, the consume log that
// foreign consumers of its group write to as well.
type shared struct {
	*sharing
	*consumelog.Foreign
}

// share returns nil where nobody shares the log.
func (in *Inbox) share(group string) *shared {
	if in.s.shared == nil {
		return nil
	}
	return &shared{in.s.shared, consumelog.NewForeign(&in.s.shared.ConsumeLog, group)}
}

// queueClaims inserts the rows of new events. It waits for a foreign consumer
// that has one in its transaction.
func (h *shared) queueClaims(b *pgx.Batch, a *apply) {
	var ids, keys, words []string
	word := map[string]string{}
	for _, c := range h.Claims(a.items, bizKey) {
		word[c.EventID] = c.Word
		ids, keys, words = append(ids, c.EventID), append(keys, c.BizKey), append(words, c.Word)
	}
	if len(ids) == 0 {
		return
	}
	b.Queue(h.claim, a.in.s.clock(), a.w.Group, ids, keys, words).Query(func(rows pgx.Rows) error {
		var id string
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			h.Claimed[id] = word[id]
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

// queueRead reads the rows that were there before.
func (h *shared) queueRead(b *pgx.Batch, a *apply, f *consumelog.Facts) {
	var ids []string
	for _, id := range a.related(f) {
		if _, claimed := h.Claimed[id]; !claimed {
			ids = append(ids, id)
		}
	}
	b.Queue(h.lock, a.w.Group, ids)
	b.Queue(h.read, a.w.Group, ids).Query(func(rows pgx.Rows) error {
		var id string
		var r consumelog.ForeignRow
		_, err := pgx.ForEachRow(rows, []any{&id, &r.Word, &r.At, &r.Time}, func() error {
			h.Seen[id] = r
			return nil
		})
		return err
	})
}

// tell writes what a step says into the shared log.
func (h *shared) tell(b *pgx.Batch, a *apply, it *consumelog.Item, s *consumelog.Step) {
	now, group := a.in.s.clock(), a.w.Group
	for _, w := range h.Tell(it, s, a.own[it.EventID], bizKey) {
		switch w.Act {
		case consumelog.ForeignFinish:
			b.Queue(h.finish, now, group, w.EventID, w.Word, w.BizKey)
		case consumelog.ForeignDrop:
			b.Queue(h.drop, group, w.EventID)
		case consumelog.ForeignClaim:
			b.Queue(h.claim, now, group, []string{w.EventID}, []string{w.BizKey}, []string{w.Word}).Exec(mustChange)
		case consumelog.ForeignChange:
			b.Queue(h.change, group, w.EventID, w.Word)
		case consumelog.ForeignTake:
			b.Queue(h.take, now, group, w.EventID, w.Word, w.Was.Word, w.Was.At).Exec(mustChange)
		case consumelog.OwnForget:
			b.Queue(deleteLog, group, w.EventID)
		case consumelog.OwnRecord:
			a.foreign(b, it)
		}
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
