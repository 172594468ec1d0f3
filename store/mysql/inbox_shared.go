package mysql

import (
	"context"
	"database/sql"
	"slices"

	"github.com/settlemq/settle/store/consumelog"
	"github.com/settlemq/settle/store/migrate"
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

// claims inserts the rows of new events. It waits for a foreign consumer that
// has one in its transaction.
func (h *shared) claims(db context.Context, a *apply) error {
	for some := range slices.Chunk(h.Claims(a.items, bizKey), rowsAtOnce) {
		if err := h.claimSome(db, a, some); err != nil {
			return err
		}
	}
	return nil
}

// bizKey is what people search for.
func bizKey(it *consumelog.Item) string {
	if key := fit(it.Record.Event.BizKey); key != "" {
		return key
	}
	return it.Key
}

// claimSome inserts those rows of which there are none. A plain INSERT inserts
// all or none, so that it is known without asking who has inserted what.
func (h *shared) claimSome(db context.Context, a *apply, todo []consumelog.Claim) error {
	for len(todo) > 0 {
		var args []any
		for _, c := range todo {
			args = h.row(args, h.Group, c.EventID, c.BizKey, c.Word, a.in.s.clock())
		}
		_, err := a.tx.ExecContext(db, h.insert+times(len(todo), h.one), args...)
		if err == nil {
			for _, c := range todo {
				h.Claimed[c.EventID] = c.Word
			}
			return nil
		}
		if !hasCode(err, codeDuplicate) {
			return err
		}
		left, err := h.missing(db, a, todo)
		if err != nil {
			return err
		}
		if len(left) == len(todo) {
			return h.claimEach(db, a, todo)
		}
		todo = left
	}
	return nil
}

// claimEach inserts rows of which some are one and the same to the collation of
// the log: the first of them gets it.
func (h *shared) claimEach(db context.Context, a *apply, todo []consumelog.Claim) error {
	for _, c := range todo {
		if err := h.claimOne(db, a, c, false); err != nil {
			return err
		}
	}
	return nil
}

// claimOne inserts a row. That it is there already is no error unless it must
// not be; that another event has its place never is.
func (h *shared) claimOne(db context.Context, a *apply, c consumelog.Claim, must bool) error {
	for range maxTries {
		_, err := a.tx.ExecContext(db, h.insert+h.one, h.row(nil, h.Group, c.EventID, c.BizKey, c.Word, a.in.s.clock())...)
		if err == nil {
			h.Claimed[c.EventID] = c.Word
			return nil
		}
		if !hasCode(err, codeDuplicate) {
			return err
		}
		left, err := h.missing(db, a, []consumelog.Claim{c})
		switch {
		case err != nil:
			return err
		case len(left) > 0: // it has gone since
		case must && !h.Apart[c.EventID]:
			return errStale
		default:
			return nil
		}
	}
	return errStale
}

// missing returns the claims of which there is no row, and takes note of those
// whose place another event has.
func (h *shared) missing(db context.Context, a *apply, todo []consumelog.Claim) ([]consumelog.Claim, error) {
	ids := make([]string, len(todo))
	for i, c := range todo {
		ids[i] = c.EventID
	}
	there := map[string]bool{}
	others := false
	err := h.rows(db, a, h.read+places(len(ids)), ids, func(id string, _ consumelog.ForeignRow, own bool) {
		there[id] = there[id] || own
		others = others || !own
	})
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if !others || there[id] {
			continue
		}
		// One row at most is this one's to the owner's unique key.
		err := h.rows(db, a, h.read+places(1), []string{id}, func(_ string, _ consumelog.ForeignRow, own bool) { h.Apart[id] = h.Apart[id] || !own })
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(todo), func(c consumelog.Claim) bool { return there[c.EventID] || h.Apart[c.EventID] }), nil
}

// rows reads rows of some events. own tells those of the events from such as
// are theirs to the collation only.
func (h *shared) rows(db context.Context, a *apply, query string, ids []string, do func(id string, r consumelog.ForeignRow, own bool)) error {
	var group, id stringColumn
	var word, at sql.NullString
	var when timeColumn
	return each(db, a.tx, []any{&group, &id, &word, &at, &when}, func() {
		r := consumelog.ForeignRow{Word: word.String, At: at.String, Time: when.Time}
		if !at.Valid { // its age is not known, so it is never old
			r.Time = a.now
		}
		do(id.string, r, group.string == h.Group && slices.Contains(ids, id.string))
	}, query, anys([]any{h.Group}, ids)...)
}

// load reads the rows that were there before. Those that may still change are
// locked.
func (h *shared) load(db context.Context, a *apply, f *consumelog.Facts) error {
	var ids, open []string
	for _, id := range a.related(f) {
		if _, claimed := h.Claimed[id]; !claimed && h.Holds("message_id", id) {
			ids = append(ids, id)
		}
	}
	for some := range slices.Chunk(ids, rowsAtOnce) {
		err := h.rows(db, a, h.read+places(len(some)), some, func(id string, r consumelog.ForeignRow, own bool) {
			switch {
			case own && h.Is(migrate.ConsumeSuccess, r.Word):
				h.Seen[id] = r
			case own:
				open = append(open, id)
			}
		})
		if err != nil {
			return err
		}
	}
	slices.Sort(open)
	for _, id := range open {
		err := h.rows(db, a, h.lock, []string{id}, func(id string, r consumelog.ForeignRow, own bool) {
			if own {
				h.Seen[id] = r
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tell writes what a step says into the shared log.
func (h *shared) tell(db context.Context, a *apply, it *consumelog.Item, s *consumelog.Step) error {
	for _, w := range h.Tell(it, s, a.own[it.EventID], bizKey) {
		if err := h.write(db, a, it, &w); err != nil {
			return err
		}
	}
	return nil
}

func (h *shared) write(db context.Context, a *apply, it *consumelog.Item, w *consumelog.ForeignWrite) error {
	now, row := a.in.s.clock(), []any{h.Group, w.EventID, h.Group, w.EventID}
	switch w.Act {
	case consumelog.ForeignFinish:
		_, err := a.tx.ExecContext(db, h.finish, h.row(nil, h.Group, w.EventID, w.BizKey, w.Word, now)...)
		return err
	case consumelog.ForeignDrop:
		_, err := a.tx.ExecContext(db, h.drop, row...)
		return err
	case consumelog.ForeignClaim:
		return h.claimOne(db, a, w.Claim, true)
	case consumelog.ForeignChange:
		_, err := a.tx.ExecContext(db, h.change, append([]any{w.Word}, row...)...)
		return err
	case consumelog.ForeignTake:
		n, err := affected(a.tx.ExecContext(db, h.take, append(append([]any{w.Word, now}, row...), w.Was.Word, orNull(w.Was.At))...))
		if err == nil && n == 0 {
			return errStale
		}
		return err
	case consumelog.OwnForget:
		_, err := a.tx.ExecContext(db, deleteLog, a.w.Group, w.EventID)
		return err
	}
	return a.foreign(db, it)
}

// foreign records in our own log what a foreign consumer has done.
func (a *apply) foreign(db context.Context, it *consumelog.Item) error {
	effect := ""
	if a.own[it.EventID] {
		effect = effectOf(it).Key
	}
	err := a.writeLog(db, it, consumelog.StatusSuccess, effect, "a foreign consumer of the group has done it")
	a.known[it.EventID] = err == nil
	return err
}
