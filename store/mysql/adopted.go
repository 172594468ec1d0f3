package mysql

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/settlemq/settle/store/adopt"
	"github.com/settlemq/settle/store/migrate"
)

// adoption is what was decided about a table of another owner, in the SQL of
// this server.
type adoption struct {
	adopt.Outbox
	// Charsets are those of its columns of text; a column of JSON or bytes has none.
	Charsets   map[string]string `json:"charsets"`
	Collations map[string]string `json:"collations"`
	// ValidJSON is whether the server lets nothing but JSON into the payload.
	ValidJSON bool `json:"valid_json"`
	// Kept are columns that the server would set when a row changes, and that are
	// not ours to change.
	Kept []string `json:"kept"`

	names *strings.Replacer
	is    server
}

// decided is that for rows; nil of nothing.
func (a *adoption) decided() *adopt.Outbox {
	if a == nil {
		return nil
	}
	return &a.Outbox
}

// sweepable reports whether the status of rows says what they wait for.
func (a *adoption) sweepable() bool { return a != nil && a.Project }

// Of an adopted table only what is marked as sent goes, and nobody is waited for.
const deletableRows = `SELECT e.id FROM %s e FORCE INDEX (PRIMARY) WHERE e.id IN (%s) AND %s FOR UPDATE SKIP LOCKED`

// deletable leaves, of rows that are done, those that may be deleted.
func (a *adoption) deletable(ctx context.Context, tx *sql.Tx, ids []any) ([]any, error) {
	if a == nil {
		return ids, nil
	}
	marked := "true"
	if a.Project {
		marked = "e.status IN (" + a.words(migrate.StatusSent) + ")"
	}
	var free []any
	var id int64
	err := each(ctx, tx, []any{&id}, func() { free = append(free, id) }, fmt.Sprintf(deletableRows, a.table(), times(len(ids), "?"), marked), ids...)
	return free, err
}

const (
	// hasAdoption tells the layout of a database: the table is made before all else.
	hasAdoption = `SELECT count(*) > 0 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'settle_adoption'`
	readAdopted = `SELECT decided, adopted_at IS NOT NULL FROM settle_adoption`
)

// loadAdoption returns nil for a database that has an outbox of its own.
func (s server) loadAdoption(ctx context.Context, db querier) (*adoption, error) {
	var adopted bool
	if err := db.QueryRowContext(ctx, hasAdoption).Scan(&adopted); err != nil || !adopted {
		return nil, err
	}
	a, done, err := s.readAdoption(ctx, db)
	if err == nil && (a == nil || !done) {
		err = errors.New("the adoption of a table was begun here and is not finished; settle migrate --adopt --yes goes on with it")
	}
	return a, err
}

// readAdoption returns what was decided, nil for nothing yet, and whether it
// was carried out.
func (s server) readAdoption(ctx context.Context, db querier) (a *adoption, done bool, err error) {
	var text string
	err = db.QueryRowContext(ctx, readAdopted).Scan(&text, &done)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	if err == nil {
		a = &adoption{is: s}
		err = json.Unmarshal([]byte(text), a)
	}
	if err == nil {
		a.names = newNames(a)
	}
	return a, done, err
}

// table is the adopted table as a query names it.
func (a *adoption) table() string { return quoted(a.Schema) + "." + quoted(a.Name) }

// plainName is the table as people write it.
func (a *adoption) plainName() string { return plain(a.Schema) + "." + plain(a.Name) }

// plain is a name as SQL takes it, in quotes only where it must have them.
func plain(name string) string {
	const digits = "0123456789"
	if strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz_"+digits) == "" && strings.TrimLeft(name, digits) == name {
		return name
	}
	return quoted(name)
}

// literal is a text as SQL writes it, whatever a backslash means to the session.
func literal(text string) string {
	if strings.Contains(text, `\`) {
		return "_utf8mb4 X'" + hex.EncodeToString([]byte(text)) + "'"
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}
