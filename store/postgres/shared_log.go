package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/store/adopt"
	"github.com/settlemq/settle/store/migrate"
)

// sharedLog is what was decided about a consume log of another owner, in the SQL
// of this database.
type sharedLog struct{ adopt.ConsumeLog }

const (
	hasSharedLog  = `SELECT to_regclass(format('%I.settle_shared_log', coalesce(current_schema(), ''))) IS NOT NULL`
	readSharedLog = `SELECT decided::text FROM settle_shared_log`
)

// loadSharedLog returns nil where the log is Settle's alone.
func loadSharedLog(ctx context.Context, conn *pgx.Conn) (*sharedLog, error) {
	var there bool
	if err := conn.QueryRow(ctx, hasSharedLog).Scan(&there); err != nil || !there {
		return nil, err
	}
	var text string
	err := conn.QueryRow(ctx, readSharedLog).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l := &sharedLog{}
	return l, json.Unmarshal([]byte(text), l)
}

func (l *sharedLog) table() string { return pgx.Identifier{l.Schema, l.Name}.Sanitize() }

func (l *sharedLog) plainName() string { return l.Schema + "." + l.Name }

// done are the words that say that the business has answered, as a list for IN.
func (l *sharedLog) done() string {
	all := make([]string, len(l.Status[migrate.ConsumeSuccess]))
	for i, word := range l.Status[migrate.ConsumeSuccess] {
		all[i] = literal(word)
	}
	return strings.Join(all, ", ")
}

// stored is an instant as consumed_at keeps it, zoned the other way.
func (l *sharedLog) stored(instant string) string {
	if zoneless(l.Columns["consumed_at"]) {
		return "(" + instant + ") AT TIME ZONE " + literal(l.Zone)
	}
	return instant
}

func (l *sharedLog) zoned() string {
	if zoneless(l.Columns["consumed_at"]) {
		return "consumed_at AT TIME ZONE " + literal(l.Zone)
	}
	return "consumed_at"
}

// sharing are the statements on a shared log.
type sharing struct {
	*sharedLog
	claim, lock, read, take, change, drop, finish, end string
}

const (
	claimShared = `INSERT INTO %[1]s (consumer_group, message_id, %[2]sstatus, consumed_at)
SELECT $2, i.message_id, %[3]si.status::%[4]s, %[5]s FROM unnest($3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS i(message_id, biz_key, status, n)
ORDER BY i.n ON CONFLICT DO NOTHING RETURNING message_id::text`

	// What may still change is locked first and read after.
	lockShared = `SELECT 1 FROM %s WHERE consumer_group = $1 AND message_id = ANY($2) AND status NOT IN (%s) ORDER BY message_id FOR UPDATE`
	readShared = `SELECT message_id::text, status::text, consumed_at::text, %[2]s FROM %[1]s WHERE consumer_group = $1 AND message_id = ANY($2)`

	takeShared = `UPDATE %[1]s SET status = $4::text::%[2]s, consumed_at = %[3]s
WHERE consumer_group = $2 AND message_id = $3 AND status::text = $5 AND consumed_at::text = $6`
	endShared    = `UPDATE %[1]s SET status = $4::text::%[2]s, consumed_at = %[3]s WHERE consumer_group = $2 AND message_id = $3 AND status NOT IN (%[4]s)`
	changeShared = `UPDATE %[1]s SET status = $3::text::%[2]s WHERE consumer_group = $1 AND message_id = $2`
	dropShared   = `DELETE FROM %s WHERE consumer_group = $1 AND message_id = $2`
	finishShared = `INSERT INTO %[1]s AS l (consumer_group, message_id, %[5]sstatus, consumed_at) SELECT $2, i.message_id, %[6]s$4::text::%[2]s, %[3]s FROM (SELECT $3::text AS message_id, $5::text AS biz_key) i
ON CONFLICT (consumer_group, message_id) DO UPDATE SET status = excluded.status, consumed_at = excluded.consumed_at WHERE l.status NOT IN (%[4]s)`
)

func newSharing(l *sharedLog) *sharing {
	if l == nil {
		return nil
	}
	table, now, status := l.table(), l.stored(databaseNow), l.Columns["status"]
	biz, from := "", ""
	if l.Columns["biz_key"] != "" {
		biz, from = "biz_key, ", "i.biz_key, "
	}
	return &sharing{
		sharedLog: l,
		claim:     fmt.Sprintf(claimShared, table, biz, from, status, now),
		lock:      fmt.Sprintf(lockShared, table, l.done()),
		read:      fmt.Sprintf(readShared, table, l.zoned()),
		take:      fmt.Sprintf(takeShared, table, status, now),
		change:    fmt.Sprintf(changeShared, table, status),
		end:       fmt.Sprintf(endShared, table, status, now, l.done()),
		drop:      fmt.Sprintf(dropShared, table),
		finish:    fmt.Sprintf(finishShared, table, status, now, l.done(), biz, from),
	}
}
