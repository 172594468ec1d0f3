package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/relay"
)

// An insert locks the table, or the partition it names, before it is given an
// id, and holds the lock until its transaction, or the savepoint it is undone
// to, ends. A transaction is named by its virtual id, and by the numbers that
// the server has given it so far.
const openOwners = `WITH held AS MATERIALIZED (
 SELECT virtualtransaction, locktype, database, relation, transactionid FROM pg_locks
 WHERE granted AND (locktype = 'relation' AND mode = 'RowExclusiveLock' OR locktype = 'transactionid' AND mode = 'ExclusiveLock'))
SELECT pg_snapshot_xmax(pg_current_snapshot())::text, coalesce((SELECT string_agg(o.virtualtransaction || ':' || coalesce(
 (SELECT string_agg(x.transactionid::text, '+') FROM held x WHERE x.locktype = 'transactionid' AND x.virtualtransaction = o.virtualtransaction), ''), ',')
 FROM (SELECT DISTINCT h.virtualtransaction FROM held h WHERE h.locktype = 'relation'
  AND h.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND h.relation IN (SELECT settle_outbox_table()::oid UNION ALL SELECT relid::oid FROM pg_partition_tree(settle_outbox_table()))) o), '')`

// owner is a transaction that has locked the table for inserting.
type owner struct {
	// virtual is "backend/number"; "-1/xid" for a prepared one.
	virtual string
	// xids it has; none as long as it has written nothing.
	xids []uint32
}

// prepared returns the number of a prepared transaction.
func (o owner) prepared() (uint32, bool) {
	xid, ok := strings.CutPrefix(o.virtual, "-1/")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(xid, 10, 32)
	return uint32(n), err == nil
}

// owners are those open at one moment. Transactions that have no number yet
// will have one that is not below next.
type owners struct {
	next uint32
	open []owner
}

// turnedOwners are prepared transactions that may have been owners of a token
// when they had no number yet, and are still to end.
type turnedOwners struct {
	token string
	known bool
	left  []string
}

// Owners implements relay.Store. The token names the owners. One of them is
// open as long as its virtual id is, or, since preparing a transaction takes
// that away, its number is among the prepared ones. One that had no number may
// be any prepared transaction that got its own since.
func (l *Log) Owners(ctx context.Context, before relay.Evidence) (relay.Evidence, error) {
	now, token, err := l.s.owners(ctx)
	if err != nil {
		return relay.Evidence{}, fmt.Errorf("ask for owners of missing ids: %w", err)
	}
	e := relay.Evidence{Known: true, Token: token}
	if before.Token == "" {
		return e, nil
	}
	then, err := parseOwners(before.Token)
	if err != nil {
		return relay.Evidence{}, fmt.Errorf("ask for owners of missing ids: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Clear = l.ended(then, now, before.Token)
	return e, nil
}

func (l *Log) ended(then, now owners, token string) bool {
	nameless := false
	for _, o := range then.open {
		if now.has(o.virtual) {
			return false
		}
		for _, xid := range o.xids {
			if now.has(fmt.Sprint("-1/", xid)) {
				return false
			}
		}
		nameless = nameless || len(o.xids) == 0
	}
	if !nameless {
		return true
	}
	// All virtual ids are gone: what is prepared later was not one of them.
	if l.turned.token != token || !l.turned.known {
		l.turned = turnedOwners{token: token, known: true}
		for _, o := range now.open {
			if xid, ok := o.prepared(); ok && int32(xid-then.next) >= 0 {
				l.turned.left = append(l.turned.left, o.virtual)
			}
		}
	}
	return !slices.ContainsFunc(l.turned.left, now.has)
}

func (o owners) has(virtual string) bool {
	return slices.ContainsFunc(o.open, func(w owner) bool { return w.virtual == virtual })
}

func (s *Store) owners(ctx context.Context) (owners, string, error) {
	var b pgx.Batch
	var next, open string
	b.Queue(pollSettings, ms(s.cfg.StatementTimeout))
	b.Queue(openOwners).QueryRow(func(row pgx.Row) error { return row.Scan(&next, &open) })
	if err := s.own.SendBatch(ctx, &b).Close(); err != nil {
		return owners{}, "", err
	}
	token := next + ";" + open
	now, err := parseOwners(token)
	return now, token, err
}

func parseOwners(token string) (owners, error) {
	next, open, ok := strings.Cut(token, ";")
	n, err := strconv.ParseUint(next, 10, 64)
	if err != nil || !ok {
		return owners{}, fmt.Errorf("%q is no evidence of this store", token)
	}
	all := owners{next: uint32(n)} // numbers of locks have 32 bits and wrap around
	for item := range strings.SplitSeq(open, ",") {
		virtual, xids, ok := strings.Cut(item, ":")
		if !ok {
			continue
		}
		o := owner{virtual: virtual}
		for xid := range strings.SplitSeq(xids, "+") {
			if n, err := strconv.ParseUint(xid, 10, 32); err == nil {
				o.xids = append(o.xids, uint32(n))
			}
		}
		all.open = append(all.open, o)
	}
	return all, nil
}
