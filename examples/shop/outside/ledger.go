package outside

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the ledger's file
)

var (
	//go:embed sql/ledger.sql
	ledgerTables string
	//go:embed sql/ledger_facts.sql
	ledgerFacts string
)

// Facts returns the query that copies a ledger into the table outside_ledger
// of a scratch database, in the format of the shop's exports. It takes the
// system's name as :service.
func Facts() string { return ledgerFacts }

// ledger is the file in which a system writes down what it does. Its methods
// may be called from several goroutines, and several processes may have the
// file open: whoever writes has it alone.
type ledger struct {
	db  *sql.DB
	now func() time.Time
}

func openLedger(ctx context.Context, path string) (*ledger, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, ledgerTables); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("open ledger %s: %w", path, err)
	}
	return &ledger{db: db, now: time.Now}, nil
}

func (l *ledger) close() error { return l.db.Close() }

// posting is a request under its key; hash is of its path and body.
type posting struct {
	ask
	key    string
	hash   []byte
	decide func(account, ask) outcome
}

// post returns the answer to p: the one given before under its key, or a new
// one once it is written down. An effect that was undone since is refused
// instead: who asks again would go by what is no more. After an error nobody
// knows whether it is written down.
func (l *ledger) post(ctx context.Context, p posting) (answer, error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return answer{}, fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	before, found, err := findAnswer(ctx, tx, p)
	if err != nil {
		return answer{}, err
	}
	known, err := readAccount(ctx, tx, p.orderID)
	if err != nil {
		return answer{}, err
	}
	if p.customerID == "" {
		p.customerID = known.customerID
	}
	o := p.decide(known, p.ask)
	if undone := before.status < http.StatusMultipleChoices && len(o.effects) == 0; found && !undone {
		return before, nil
	}
	body, err := json.Marshal(o.body)
	if err != nil {
		return answer{}, fmt.Errorf("encode answer: %w", err)
	}
	a := answer{status: o.status, body: body}
	if err := l.write(ctx, tx, p, o.effects, a); err != nil {
		return answer{}, err
	}
	// Crash here: the effect did not take place; the client asks again.
	if err := tx.Commit(); err != nil {
		return answer{}, fmt.Errorf("commit: %w", err)
	}
	// Crash here: it did, nobody was told; whoever asks again is told then.
	return a, nil
}

const findEntry = `SELECT request_hash = ?, answer_status, answer_body FROM entry WHERE idempotency_key = ?`

func findAnswer(ctx context.Context, tx *sql.Tx, p posting) (answer, bool, error) {
	var same bool
	var a answer
	err := tx.QueryRowContext(ctx, findEntry, p.hash, p.key).Scan(&same, &a.status, &a.body)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return a, false, nil
	case err != nil:
		return a, false, fmt.Errorf("find entry: %w", err)
	case !same:
		refusal := refuse(http.StatusUnprocessableEntity, "this Idempotency-Key belongs to another request")
		body, err := json.Marshal(refusal)
		return answer{refusal.Status, body}, true, err
	}
	return a, true, nil
}

const findOrder = `SELECT kind, customer_id, amount_cents FROM entry WHERE order_id = ?`

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func readAccount(ctx context.Context, from querier, orderID string) (account, error) {
	var known account
	rows, err := from.QueryContext(ctx, findOrder, orderID)
	if err != nil {
		return known, fmt.Errorf("read account: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var kind, customer string
		var cents int64
		if err := rows.Scan(&kind, &customer, &cents); err != nil {
			return known, fmt.Errorf("read account: %w", err)
		}
		known.add(kind, customer, cents)
	}
	return known, rows.Err()
}

const insertEntry = `INSERT INTO entry (idempotency_key, kind, order_id, customer_id, amount_cents, request_hash, answer_status, answer_body, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

// write writes the effects down, the first under the request's key, others
// under keys made of it.
func (l *ledger) write(ctx context.Context, tx *sql.Tx, p posting, effects []effect, a answer) error {
	at := l.now().UnixMicro()
	for i, e := range effects {
		key := p.key
		if i > 0 {
			key += " " + e.kind // no client's key has a blank
		}
		if _, err := tx.ExecContext(ctx, insertEntry, key, e.kind, p.orderID, p.customerID, e.cents, p.hash, a.status, string(a.body), at); err != nil {
			return fmt.Errorf("write %s: %w", e.kind, err)
		}
	}
	return nil
}

// customerOf returns the customer whose order it is, "" if nobody has named one.
func (l *ledger) customerOf(ctx context.Context, orderID string) (string, error) {
	known, err := readAccount(ctx, l.db, orderID)
	return known.customerID, err
}

const countMode = `INSERT INTO misbehaved (mode, times) VALUES (?, 1) ON CONFLICT (mode) DO UPDATE SET times = times + 1`

// count notes that the system misbehaves now.
func (l *ledger) count(ctx context.Context, mode string) error {
	if _, err := l.db.ExecContext(ctx, countMode, mode); err != nil {
		return fmt.Errorf("count %s: %w", mode, err)
	}
	return nil
}
