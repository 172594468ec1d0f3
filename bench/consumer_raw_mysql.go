package main

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"

	"github.com/settlemq/settle"
)

// upsertsOnMySQL ask which events are recorded, since no INSERT tells which of
// its rows were new; nobody else records any between.
func upsertsOnMySQL() applier { return upserts(scripted(consumeLogMySQL), applyRawOnMySQL) }

// consumeLogMySQL is the log of those that have none of their own.
const consumeLogMySQL = `CREATE TABLE consume_log (consumer_group VARCHAR(64), event_id VARCHAR(64), event_type VARCHAR(64) NOT NULL, processed_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
 PRIMARY KEY (consumer_group, event_id)) ENGINE = InnoDB`

const (
	applyKnownMySQL  = `SELECT event_id FROM consume_log WHERE consumer_group = 'bench' AND event_id IN `
	applyRecordMySQL = `INSERT INTO consume_log (consumer_group, event_id, event_type) VALUES `
	applyManyMySQL   = "INSERT INTO account (`key`, amount) VALUES %s ON DUPLICATE KEY UPDATE amount = amount + VALUES(amount)"
)

func applyRawOnMySQL(ctx context.Context, at string, d delivery) error {
	db, conn, err := connectForWork(ctx, at)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	for some := range slices.Chunk(d.events, 1000) {
		if err := applyThousand(ctx, conn, some); err != nil {
			return err
		}
	}
	return nil
}

func applyThousand(ctx context.Context, conn *sql.Conn, events []*settle.Event) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	fresh := map[string]string{} // keys by event
	var ids []any
	for _, e := range events {
		if _, again := fresh[e.ID]; !again {
			fresh[e.ID], ids = e.AggregateID, append(ids, e.ID)
		}
	}
	rows, err := tx.QueryContext(ctx, applyKnownMySQL+"("+repeated("?", len(ids))+")", ids...)
	if err != nil {
		return err
	}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			_ = rows.Close()
			return err
		}
		delete(fresh, id)
	}
	if err := rows.Err(); err != nil || len(fresh) == 0 {
		return err
	}
	ids = ids[:0]
	for _, id := range slices.Sorted(maps.Keys(fresh)) {
		ids = append(ids, id)
	}
	if _, err := tx.ExecContext(ctx, applyRecordMySQL+repeated("('bench',?,'"+eventType+"')", len(ids)), ids...); err != nil {
		return err
	}
	if err := addManyOnMySQL(ctx, tx, slices.Collect(maps.Values(fresh))); err != nil {
		return err
	}
	// Crash here: nothing of it is kept, and it is delivered again.
	return tx.Commit()
}

// addManyOnMySQL makes the effects of many events by one statement.
func addManyOnMySQL(ctx context.Context, tx *sql.Tx, keys []string) error {
	amounts := map[string]int{}
	for _, key := range keys {
		amounts[key]++
	}
	var args []any
	for _, key := range slices.Sorted(maps.Keys(amounts)) {
		args = append(args, key, amounts[key])
	}
	_, err := tx.ExecContext(ctx, strings.Replace(applyManyMySQL, "%s", repeated("(?,?)", len(amounts)), 1), args...)
	return err
}

// repeated is what stands so often in a list.
func repeated(s string, n int) string { return s + strings.Repeat(","+s, n-1) }
