package outside

import (
	"context"
	"fmt"
)

// Standing is how a system stands.
type Standing struct {
	System string `json:"system"`
	// Asked counts the requests for effects since the process began.
	Asked int64 `json:"asked"`
	// Rules stand now, oldest first; For says how long yet.
	Rules []Misbehaviour `json:"rules"`
	// Misbehaved counts by mode how often a request was really met, over all
	// lives of the system.
	Misbehaved map[string]int64 `json:"misbehaved"`
	// Ledger sums up the ledger by kind.
	Ledger map[string]Sum `json:"ledger"`
}

// Sum is a number of rows, and what they come to.
type Sum struct {
	Rows  int64 `json:"rows"`
	Cents int64 `json:"amount_cents"`
}

const sumLedger = `SELECT kind, COUNT(*), SUM(amount_cents) FROM entry GROUP BY kind`

func (l *ledger) sums(ctx context.Context) (map[string]Sum, error) {
	all := map[string]Sum{}
	rows, err := l.db.QueryContext(ctx, sumLedger)
	if err != nil {
		return nil, fmt.Errorf("sum up ledger: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var kind string
		var s Sum
		if err := rows.Scan(&kind, &s.Rows, &s.Cents); err != nil {
			return nil, fmt.Errorf("sum up ledger: %w", err)
		}
		all[kind] = s
	}
	return all, rows.Err()
}

const readCounts = `SELECT mode, times FROM misbehaved`

func (l *ledger) counts(ctx context.Context) (map[string]int64, error) {
	all := map[string]int64{}
	rows, err := l.db.QueryContext(ctx, readCounts)
	if err != nil {
		return nil, fmt.Errorf("read counts: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var mode string
		var n int64
		if err := rows.Scan(&mode, &n); err != nil {
			return nil, fmt.Errorf("read counts: %w", err)
		}
		all[mode] = n
	}
	return all, rows.Err()
}
