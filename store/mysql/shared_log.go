package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/settlemq/settle/store/adopt"
	"github.com/settlemq/settle/store/migrate"
)

// sharedLog is what was decided about a consume log of another owner, in the SQL
// of this server.
type sharedLog struct {
	adopt.ConsumeLog
	is server
}

func (s server) newSharedLog() *sharedLog {
	return &sharedLog{ConsumeLog: adopt.ConsumeLog{Columns: map[string]string{}, Limits: map[string]int{}, Charsets: map[string]string{}}, is: s}
}

const (
	hasSharedLog  = `SELECT count(*) > 0 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'settle_shared_log'`
	readSharedLog = `SELECT decided FROM settle_shared_log`
)

// loadSharedLog returns nil where the log is Settle's alone.
func (s server) loadSharedLog(ctx context.Context, db querier) (*sharedLog, error) {
	var there bool
	if err := db.QueryRowContext(ctx, hasSharedLog).Scan(&there); err != nil || !there {
		return nil, err
	}
	var text string
	err := db.QueryRowContext(ctx, readSharedLog).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l := s.newSharedLog()
	return l, json.Unmarshal([]byte(text), l)
}

func (l *sharedLog) table() string { return quoted(l.Schema) + "." + quoted(l.Name) }

// plainName is the table as people write it.
func (l *sharedLog) plainName() string { return plain(l.Schema) + "." + plain(l.Name) }

// done are the words that say that the business has answered, as a list for IN.
func (l *sharedLog) done() string {
	all := make([]string, len(l.Status[migrate.ConsumeSuccess]))
	for i, word := range l.Status[migrate.ConsumeSuccess] {
		all[i] = literal(word)
	}
	return strings.Join(all, ", ")
}

// stored is an instant, which is in UTC, as consumed_at keeps it; zoned is the
// other way.
func (l *sharedLog) stored(instant string) string {
	if zoneless(l.Columns["consumed_at"]) && l.Zone != inUTC {
		return "CONVERT_TZ(" + instant + ", '+00:00', " + literal(l.Zone) + ")"
	}
	return instant
}

func (l *sharedLog) zoned() string {
	if zoneless(l.Columns["consumed_at"]) && l.Zone != inUTC {
		return "CONVERT_TZ(consumed_at, " + literal(l.Zone) + ", '+00:00')"
	}
	return "consumed_at"
}

// sharing are the statements on a shared log. Its collation may take two texts
// for one: a row is sought by the owner's unique key, as that compares, and is
// the one that is meant only if it is byte by byte.
type sharing struct {
	*sharedLog
	insert, one, read, lock, take, change, drop, finish, end string
}

const (
	insertShared = `INSERT INTO %[1]s (consumer_group, message_id, %[2]sstatus, consumed_at) VALUES `
	oneShared    = `(?,?,%[1]s?,%[2]s)`

	readShared = `SELECT consumer_group, message_id, CAST(status AS CHAR), CAST(consumed_at AS CHAR), %[2]s FROM %[1]s WHERE consumer_group = ? AND message_id IN `

	// What may still change is read as it will be when others have ended, row by
	// row: of one unique key the server locks no more than the row.
	lockShared = `SELECT consumer_group, message_id, CAST(status AS CHAR), CAST(consumed_at AS CHAR), %[2]s FROM %[1]s WHERE consumer_group = ? AND message_id = ? FOR UPDATE`

	// whereShared is the row of an event, and of no other.
	whereShared = ` WHERE consumer_group = ? AND message_id = ? AND %[1]s = ? AND %[2]s = ?`

	takeShared   = `UPDATE %[1]s SET status = ?, consumed_at = %[2]s%[3]s AND CAST(status AS CHAR) = ? AND CAST(consumed_at AS CHAR) <=> ?`
	endShared    = `UPDATE %[1]s SET status = ?, consumed_at = %[2]s%[3]s AND status NOT IN (%[4]s)`
	changeShared = `UPDATE %[1]s SET status = ?%[2]s`
	dropShared   = `DELETE FROM %[1]s%[2]s`

	// The server sets one column after the other, so the status is the last.
	finishShared = ` ON DUPLICATE KEY UPDATE consumed_at = IF(%[1]s, VALUES(consumed_at), consumed_at), status = IF(%[1]s, VALUES(status), status)`
	openShared   = `status NOT IN (%[1]s) AND %[2]s = CONVERT(VALUES(consumer_group) USING utf8mb4) AND %[3]s = CONVERT(VALUES(message_id) USING utf8mb4)`
)

func newSharing(l *sharedLog) *sharing {
	if l == nil {
		return nil
	}
	exact := func(column string) string { return "CONVERT(" + column + " USING utf8mb4) COLLATE " + l.is.exact }
	group, id := exact("consumer_group"), exact("message_id")
	table, now, where := l.table(), l.stored(databaseNow), fmt.Sprintf(whereShared, group, id)
	biz, value := "", ""
	if l.Columns["biz_key"] != "" {
		biz, value = "biz_key, ", "?,"
	}
	s := &sharing{
		sharedLog: l,
		insert:    fmt.Sprintf(insertShared, table, biz),
		one:       fmt.Sprintf(oneShared, value, now),
		read:      fmt.Sprintf(readShared, table, l.zoned()),
		lock:      fmt.Sprintf(lockShared, table, l.zoned()),
		take:      fmt.Sprintf(takeShared, table, now, where),
		end:       fmt.Sprintf(endShared, table, now, where, l.done()),
		change:    fmt.Sprintf(changeShared, table, where),
		drop:      fmt.Sprintf(dropShared, table, where),
	}
	s.finish = s.insert + s.one + fmt.Sprintf(finishShared, fmt.Sprintf(openShared, l.done(), group, id))
	return s
}

// row are the arguments of a row to be inserted.
func (s *sharing) row(args []any, group, id, biz, word string, now any) []any {
	args = append(args, group, id)
	if s.Columns["biz_key"] != "" {
		args = append(args, biz)
	}
	return append(args, word, now)
}

// discarded tells foreign consumers that an event is done with.
func (s *sharing) discarded(ctx context.Context, d *deed, l *deadLetter) error {
	if s == nil || l.relay || l.foreign || l.half {
		return nil
	}
	_, err := d.do(ctx, s.end, s.Word(migrate.ConsumeSuccess), d.now, l.group, l.eventID, l.group, l.eventID)
	return err
}
