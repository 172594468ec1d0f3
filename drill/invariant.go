package drill

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"strings"
)

//go:embed sql/invariants.sql
var invariantQueries string

// Invariant is one thing that must hold, and what was found.
type Invariant struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Checked is how many rows were examined.
	Checked int64 `json:"checked"`
	// Violations is how many rows break it.
	Violations int64 `json:"violations"`
	// Examples are the first of them.
	Examples []string `json:"examples,omitempty"`
}

// Check runs every invariant. One that has nothing to examine and may have
// nothing is left out; any other that has nothing to examine is violated.
func (f *Facts) Check(ctx context.Context) ([]Invariant, error) {
	queries, err := parseQueries(invariantQueries)
	if err != nil {
		return nil, err
	}
	var all []Invariant
	for _, q := range queries {
		inv, err := f.check(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", q.id, err)
		}
		if inv.Checked > 0 || !q.optional {
			all = append(all, inv)
		}
	}
	return all, nil
}

func (f *Facts) check(ctx context.Context, q query) (Invariant, error) {
	inv := Invariant{ID: q.id, Name: q.name}
	var err error
	if inv.Checked, err = f.number(ctx, q.checked); err != nil {
		return inv, err
	}
	if inv.Checked == 0 {
		if !q.optional {
			inv.Violations = 1
			inv.Examples = []string{"nothing to examine: the facts are missing"}
		}
		return inv, nil
	}
	rows, err := f.db.QueryContext(ctx, q.text)
	if err != nil {
		return inv, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		inv.Violations++
		if inv.Violations > 5 {
			continue
		}
		example, err := rowText(rows)
		if err != nil {
			return inv, err
		}
		inv.Examples = append(inv.Examples, example)
	}
	return inv, rows.Err()
}

// rowText renders a row as "column=value" words.
func rowText(rows *sql.Rows) (string, error) {
	cols, err := rows.Columns()
	if err != nil {
		return "", err
	}
	values, into := make([]any, len(cols)), make([]any, len(cols))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		return "", err
	}
	words := make([]string, len(cols))
	for i, c := range cols {
		if b, ok := values[i].([]byte); ok {
			values[i] = string(b)
		}
		words[i] = fmt.Sprintf("%s=%v", c, values[i])
	}
	return strings.Join(words, " "), nil
}
