package mysql

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/consumelog"
)

// recordable reports whether a log row is inserted for the item before
// anything else is known of it.
func recordable(it *consumelog.Item) bool {
	return it.RetryID == 0 && it.Intent != settle.IntentIgnore && it.Supersedes == ""
}

// intended is the status that the item gets if all goes as it is meant to.
func intended(it *consumelog.Item) string {
	switch it.Intent {
	case settle.IntentPark:
		return consumelog.StatusParked
	case settle.IntentDie:
		return consumelog.StatusDead
	}
	return consumelog.StatusApplied
}

const (
	insertLog = `INSERT INTO t_message_consume_log
(consumer_group, event_id, event_type, aggregate_id, aggregate_seq, effect_key, status, attempts, payload_hash, appended_at, processed_at, root_id, reason) VALUES `
	oneLog = `(?,?,?,?,?,?,?,?,?,?,` + databaseNow + `,?,?)`
)

// record inserts the log rows of all new items as if each would end the way its
// intent says. The first of two with one event id, or one effect key, gets the
// row.
//
// The statement is a plain INSERT, which inserts all its rows or none, so what
// it inserted is known without asking. When a row is there already, the server
// refuses it: who has it is read, and the rest is inserted. Of two transactions
// that insert one event at the same time the second waits in the unique index
// until the first has ended. If that has committed, the second is refused, and
// its next statement sees the row, because under READ COMMITTED each has a
// snapshot of its own; if it was rolled back, the second inserts. An INSERT …
// ON DUPLICATE KEY UPDATE would not tell who has inserted what, and one with
// IGNORE would hide other errors.
//
// Rows are inserted key by key, in the order of the items within each: two
// transactions with the same events then lock them in the same order, and the
// effects of a key still rise by processed_no.
func (a *apply) record(db context.Context) error {
	a.own = map[string]bool{}
	var todo []*consumelog.Item
	effects := map[consumelog.EffectKey]bool{}
	seen := map[string]bool{}
	for i := range a.items {
		it := &a.items[i]
		effect := effectOf(it)
		if !recordable(it) || seen[it.EventID] || effect.Key != "" && effects[effect] {
			continue
		}
		seen[it.EventID], effects[effect] = true, true
		todo = append(todo, it)
	}
	slices.SortStableFunc(todo, func(x, y *consumelog.Item) int { return cmp.Compare(x.Key, y.Key) })
	for some := range slices.Chunk(todo, rowsAtOnce) {
		if err := a.insert(db, some); err != nil {
			return err
		}
	}
	return nil
}

// effectOf is the effect key that the item's row holds; empty: none.
func effectOf(it *consumelog.Item) consumelog.EffectKey {
	if it.Intent != settle.IntentHandle || it.EffectKey == "" {
		return consumelog.EffectKey{}
	}
	return consumelog.EffectKey{EventType: it.EventType, Key: it.EffectKey}
}

// insert inserts those of the items that nobody has recorded.
func (a *apply) insert(db context.Context, todo []*consumelog.Item) error {
	for range maxTries {
		if len(todo) == 0 {
			return nil
		}
		args := make([]any, 0, 13*len(todo))
		for _, it := range todo {
			args = a.logArgs(args, it, intended(it), effectOf(it).Key, "")
		}
		_, err := a.tx.ExecContext(db, insertLog+times(len(todo), oneLog), args...)
		if err == nil {
			for _, it := range todo {
				a.own[it.EventID] = true
			}
			return nil
		}
		if !hasCode(err, codeDuplicate) {
			return err
		}
		if todo, err = a.missing(db, todo); err != nil {
			return err
		}
	}
	return errStale
}

func (a *apply) logArgs(args []any, it *consumelog.Item, status, effect, reason string) []any {
	var hash any
	if it.Record.Event != nil {
		hash = consumelog.PayloadHash(it.Record.Event.Payload)
	}
	return append(args, a.w.Group, it.EventID, it.EventType, it.Key, it.Seq, orNull(effect), status, it.Attempt, hash,
		timeOrNull(it.Appended), a.in.s.clock(), orNull(it.Root), orNull(prose(reason)))
}

const readRecorded = `SELECT event_id FROM t_message_consume_log WHERE consumer_group = ? AND event_id IN `

// missing returns the items of which neither the event nor the effect key is
// in the log.
func (a *apply) missing(db context.Context, todo []*consumelog.Item) ([]*consumelog.Item, error) {
	there := map[string]bool{}
	args := []any{a.w.Group}
	for _, it := range todo {
		args = append(args, it.EventID)
	}
	var id string
	if err := each(db, a.tx, []any{&id}, func() { there[id] = true }, readRecorded+places(len(todo)), args...); err != nil {
		return nil, err
	}
	holders, err := a.holders(db, todo)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(todo), func(it *consumelog.Item) bool {
		_, held := holders[effectOf(it)]
		return there[it.EventID] || held
	}), nil
}

const readEffects = `SELECT event_type, effect_key, event_id FROM t_message_consume_log WHERE consumer_group = ? AND (`

// holders tells which events hold the effect keys of items.
func (a *apply) holders(db context.Context, items []*consumelog.Item) (map[consumelog.EffectKey]string, error) {
	held := map[consumelog.EffectKey]string{}
	var arms []string
	args := []any{a.w.Group}
	for _, it := range items {
		if k := effectOf(it); k.Key != "" {
			arms, args = append(arms, "event_type = ? AND effect_key = ?"), append(args, k.EventType, k.Key)
		}
	}
	if len(arms) == 0 {
		return held, nil
	}
	var k consumelog.EffectKey
	var id string
	err := each(db, a.tx, []any{&k.EventType, &k.Key, &id}, func() { held[k] = id }, readEffects+strings.Join(arms, " OR ")+")", args...)
	return held, err
}

const (
	changeLog = `UPDATE t_message_consume_log SET processed_no = coalesce(?, processed_no), effect_key = ?, status = ?, attempts = ?,
processed_at = ` + databaseNow + `, root_id = coalesce(?, root_id), reason = ? WHERE consumer_group = ? AND event_id = ?`

	deleteLog = `DELETE FROM t_message_consume_log WHERE consumer_group = ? AND event_id = ?`
)

// logFirst writes the log rows of a step before its handler runs: the unique
// keys must hold before the effect is made.
func (a *apply) logFirst(ctx context.Context, i int, s *consumelog.Step) error {
	db, cancel := a.in.s.ours(ctx)
	defer cancel()
	err := a.log(db, i, s)
	if hasCode(err, codeDuplicate) {
		return errStale
	}
	return err
}

// log writes the log rows of a step: the item's own and those it supersedes.
func (a *apply) log(db context.Context, i int, s *consumelog.Step) error {
	it := &a.items[i]
	if a.shared != nil {
		if err := a.shared.tell(db, a, it, s); err != nil {
			return err
		}
	}
	if s.Forget {
		_, err := a.tx.ExecContext(db, deleteLog, a.w.Group, it.EventID)
		return err
	}
	if s.Status != "" {
		effect := ""
		if s.Effect {
			effect = effectOf(it).Key
		}
		if err := a.writeLog(db, it, s.Status, effect, s.Reason); err != nil {
			return err
		}
		a.known[it.EventID] = true
	}
	for _, id := range s.Supersede {
		if err := a.supersede(db, it, id); err != nil {
			return err
		}
	}
	return nil
}

// writeLog inserts the item's row, or changes it. A row that was not there when
// it was looked for has been made by another transaction since, and one that has
// gone was deleted by it.
func (a *apply) writeLog(db context.Context, it *consumelog.Item, status, effect, reason string) error {
	if !a.known[it.EventID] {
		_, err := a.tx.ExecContext(db, insertLog+oneLog, a.logArgs(nil, it, status, effect, reason)...)
		if hasCode(err, codeDuplicate) {
			return errStale
		}
		a.own[it.EventID] = err == nil
		return err
	}
	var no any
	if consumelog.Final(status) {
		fresh, err := a.number(db)
		if err != nil {
			return err
		}
		no = fresh
	}
	n, err := affected(a.tx.ExecContext(db, changeLog, no, orNull(effect), status, it.Attempt, a.in.s.clock(), orNull(it.Root), orNull(prose(reason)), a.w.Group, it.EventID))
	if err == nil && n == 0 {
		return errStale
	}
	return err
}

const (
	takeNumber = `INSERT INTO t_message_consume_log (consumer_group, event_id, status, processed_at) VALUES (?, ?, 'DISCARDED', UTC_TIMESTAMP(6))`
	giveNumber = `DELETE FROM t_message_consume_log WHERE processed_no = ?`
)

// number takes the next processed_no: only an insert gives one.
func (a *apply) number(db context.Context) (int64, error) {
	r, err := a.tx.ExecContext(db, takeNumber, a.w.Group, "number:"+settle.NewID())
	if err != nil {
		return 0, err
	}
	no, err := r.LastInsertId()
	if err == nil {
		_, err = a.tx.ExecContext(db, giveNumber, no)
	}
	return no, err
}

const (
	// What this transaction has inserted for an item behind it has not run.
	supersedeOwn = `UPDATE t_message_consume_log SET status = 'SUPERSEDED', effect_key = NULL, reason = ? WHERE consumer_group = ? AND event_id = ?`

	supersedeOther = supersedeOwn + ` AND status NOT IN ('APPLIED', 'SUCCESS', 'REJECTED', 'DUPLICATE', 'COMPENSATED')`

	supersedeNew = `INSERT INTO t_message_consume_log
(consumer_group, event_id, event_type, aggregate_id, status, appended_at, processed_at, root_id, reason) VALUES (?,?,?,?,'SUPERSEDED',?,` + databaseNow + `,?,?)`
)

// supersede marks another event of the item's lineage, which may not have
// been seen here: should it come, it is a duplicate. One that has taken effect
// meanwhile is not marked.
func (a *apply) supersede(db context.Context, it *consumelog.Item, id string) error {
	reason := "event " + it.EventID + " took its place"
	if a.own[id] {
		_, err := a.tx.ExecContext(db, supersedeOwn, reason, a.w.Group, id)
		return err
	}
	n, err := affected(a.tx.ExecContext(db, supersedeOther, reason, a.w.Group, id))
	if err == nil && n == 0 {
		_, err = a.tx.ExecContext(db, supersedeNew, a.w.Group, id, it.EventType, it.Key, timeOrNull(it.Appended), a.in.s.clock(), it.Root, reason)
		if hasCode(err, codeDuplicate) {
			return errStale
		}
	}
	a.known[id] = true
	return err
}

const rejectLog = `UPDATE t_message_consume_log SET status = ?, reason = ? WHERE consumer_group = ? AND event_id = ?`

// reject records what a handler has refused, or what a compensation has found
// that it needs not do.
func (a *apply) reject(i int, s *consumelog.Step, reason string) {
	status := consumelog.StatusRejected
	if s.Status == consumelog.StatusCompensated {
		status, reason = s.Status, s.Reason+"; "+reason
	}
	a.exec(rejectLog, status, prose(reason), a.w.Group, a.items[i].EventID)
}

const writeSeq = `INSERT INTO t_consume_seq (consumer_group, aggregate_type, aggregate_id, last_seq) VALUES (?,?,?,?)
ON DUPLICATE KEY UPDATE last_seq = GREATEST(last_seq, VALUES(last_seq))`

// aftermath writes what a step says beside the log.
func (a *apply) aftermath(i int, s *consumelog.Step) error {
	it := &a.items[i]
	for _, id := range s.Remove {
		a.exec(deleteRetry, id)
	}
	if s.Place != nil {
		if err := a.store(it, s); err != nil {
			return err
		}
	}
	if s.Letter != nil {
		if err := a.openLetter(it, s.Letter); err != nil {
			return err
		}
	}
	for _, c := range s.Closed {
		a.closeLetter(c, it.EventID)
	}
	if s.Promote && !slices.Contains(a.keys, it.Key) {
		a.keys = append(a.keys, it.Key)
	}
	return nil
}
