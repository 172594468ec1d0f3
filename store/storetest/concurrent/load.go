package concurrent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// Load is what many writers do to one outbox. Each counts the events of a key
// in the row that it locks first, so the count that commits says what must
// arrive, and in which order.
type Load struct {
	Writers, Keys int
	During        time.Duration
	// Late writers append before they lock: the order contract is broken.
	// Defaults to false.
	Late bool
	// Plain writers hold nothing for long: behind a pooler sessions are few.
	// Defaults to false.
	Plain bool
}

// createKeys makes the table of keys that writers count in.
func (d Dialect) createKeys() string {
	return `CREATE TABLE t_key (name ` + d.Text + ` NOT NULL PRIMARY KEY, n bigint NOT NULL)`
}

// Write puts a load on an outbox and returns how many events of each key were
// committed.
func Write[Tx any](t *testing.T, o Outbox[Tx], l Load) map[string]int64 {
	t.Helper()
	ctx := t.Context()
	queries := []string{o.createKeys()}
	for k := range l.Keys {
		queries = append(queries, fmt.Sprintf("INSERT INTO t_key VALUES ('key-%d', 0)", k))
	}
	for _, q := range queries {
		if _, err := o.DB.ExecContext(ctx, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	end := time.Now().Add(l.During)
	var group sync.WaitGroup
	for w := range l.Writers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 7))
			for i := 0; time.Now().Before(end) && !t.Failed(); i++ {
				err := write(ctx, &o, l, r, fmt.Sprintf("%s-%d-%d", settle.NewID(), w, i))
				if err != nil && (o.Undone == nil || !o.Undone(err)) {
					t.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	for i, commits := range []bool{true, false, true} {
		if l.Plain && i > 0 {
			break
		}
		group.Go(func() {
			if err := long(ctx, &o, fmt.Sprint("long-", i), l.During*time.Duration(i+1)/4, commits); err != nil {
				t.Errorf("long transaction: %v", err)
			}
		})
	}
	group.Wait()
	return committed(t, &o)
}

const committedKeys = `SELECT name, n FROM t_key WHERE n > 0`

func committed[Tx any](t *testing.T, o *Outbox[Tx]) map[string]int64 {
	t.Helper()
	rows, err := o.DB.QueryContext(t.Context(), committedKeys)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	want := map[string]int64{}
	for rows.Next() {
		var key string
		var n int64
		if err := rows.Scan(&key, &n); err != nil {
			t.Fatal(err)
		}
		want[key] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return want
}

const (
	keyCounted = "key.counted"
	keyUndone  = "key.undone"
)

// write makes one transaction: three in ten are rolled back, one in ten does
// what only this database can, some undo an event to a savepoint, some take
// their time.
func write[Tx any](ctx context.Context, o *Outbox[Tx], l Load, r *rand.Rand, name string) error {
	key := fmt.Sprint("key-", r.IntN(l.Keys))
	undo, odd := r.IntN(10) < 3, r.IntN(10) == 0 && !l.Plain
	tx, err := o.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = o.Rollback(context.WithoutCancel(ctx), tx) }()
	n := int64(0)
	if !l.Late {
		if n, err = o.count(ctx, tx, key); err != nil {
			return err
		}
	}
	if r.IntN(4) == 0 {
		if err := undoneEvent(ctx, o, tx, key); err != nil {
			return err
		}
	}
	if odd && o.Insert != nil && !l.Late {
		err = o.Insert(ctx, tx, name, key, n)
	} else {
		err = o.append(ctx, tx, name, keyCounted, key, n)
	}
	if err == nil && l.Late {
		time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
		err = countLate(ctx, o, tx, key, name)
	}
	if err != nil {
		return err
	}
	if r.IntN(3) == 0 {
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
	}
	switch {
	case odd && o.End != nil:
		return o.End(ctx, tx, name, undo)
	case undo:
		return o.Rollback(ctx, tx)
	}
	return o.Commit(ctx, tx)
}

const renumber = `UPDATE t_outbox_event SET aggregate_seq = ? WHERE event_id = ?`

func countLate[Tx any](ctx context.Context, o *Outbox[Tx], tx Tx, key, name string) error {
	n, err := o.count(ctx, tx, key)
	if err != nil {
		return err
	}
	return o.Exec(ctx, tx, o.sql(renumber), n, name)
}

func undoneEvent[Tx any](ctx context.Context, o *Outbox[Tx], tx Tx, key string) error {
	if err := o.Exec(ctx, tx, "SAVEPOINT before_it"); err != nil {
		return err
	}
	if err := o.append(ctx, tx, "", keyUndone, key, 1); err != nil {
		return err
	}
	return o.Exec(ctx, tx, "ROLLBACK TO SAVEPOINT before_it")
}

var errUndone = errors.New("undone on purpose")

const longKey = `INSERT INTO t_key VALUES (?, 3)`

// long holds a transaction open that was given its ids early.
func long[Tx any](ctx context.Context, o *Outbox[Tx], key string, open time.Duration, commits bool) error {
	err := o.in(ctx, func(tx Tx) error {
		if err := o.Exec(ctx, tx, o.sql(longKey), key); err != nil {
			return err
		}
		for n := range int64(3) {
			if err := o.append(ctx, tx, "", keyCounted, key, n+1); err != nil {
				return err
			}
		}
		time.Sleep(open)
		if !commits {
			return errUndone
		}
		return nil
	})
	if errors.Is(err, errUndone) {
		return nil
	}
	return err
}
