package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/pressly/goose/v3/database"
)

// Plan returns the SQL that Up would run, for a person to read or to run in
// its place: afterwards Up finds nothing to do. It changes nothing.
func (s *Schema) Plan(ctx context.Context) (string, error) {
	steps, err := s.Status(ctx)
	if err != nil {
		return "", err
	}
	missing := slices.DeleteFunc(steps, func(step Step) bool { return step.Applied })
	if len(missing) == 0 {
		return "", nil
	}
	store, err := database.NewStore(database.Dialect(s.s.Dialect), Table)
	if err != nil {
		return "", err
	}
	var p plan
	if missing[0].Version == 1 {
		p.begin("where the numbers of migrations are kept")
		p.note(store.CreateVersionTable(ctx, &p))
		p.note(store.Insert(ctx, &p, database.InsertRequest{Version: 0}))
		p.commit()
	}
	for _, step := range missing {
		p.begin(fmt.Sprintf("schema version %d: %s", step.Version, step.Name))
		p.text.WriteString(step.section(goingUp))
		p.note(store.Insert(ctx, &p, database.InsertRequest{Version: step.Version}))
		p.commit()
	}
	return p.text.String(), p.err
}

// PlanDown returns the SQL that Down would run, but what it looks at first.
func (s *Schema) PlanDown(ctx context.Context, to int64) (string, error) {
	steps, err := s.above(ctx, to)
	if err != nil || len(steps) == 0 {
		return "", err
	}
	store, err := database.NewStore(database.Dialect(s.s.Dialect), Table)
	if err != nil {
		return "", err
	}
	var p plan
	if s.s.Before != nil && slices.ContainsFunc(steps, Step.drops) {
		first, err := s.s.Before(ctx, s.s.DB)
		if err != nil {
			return "", err
		}
		p.text.WriteString(first)
	}
	p.begin(fmt.Sprintf("back to schema version %d", to))
	for _, step := range steps {
		p.text.WriteString(step.section(goingDown))
		p.note(store.Delete(ctx, &p, step.Version))
	}
	if to == 0 {
		p.text.WriteString(dropTable + ";\n")
	}
	p.commit()
	return p.text.String(), p.err
}

// plan writes down what the migration tool would execute.
type plan struct {
	text strings.Builder
	err  error
}

var _ database.DBTxConn = (*plan)(nil)

func (p *plan) begin(title string) { p.text.WriteString("-- " + title + "\nBEGIN;\n") }
func (p *plan) commit()            { p.text.WriteString("COMMIT;\n\n") }

func (p *plan) note(err error) {
	if p.err == nil {
		p.err = err
	}
}

// ExecContext writes a statement with its arguments, numbers and truths, in
// their places.
func (p *plan) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	for i, arg := range args {
		value := fmt.Sprint(arg)
		if strings.Contains(query, "?") {
			if arg == true { // SQLite keeps truths as numbers
				value = "1"
			}
			query = strings.Replace(query, "?", value, 1)
		} else {
			query = strings.ReplaceAll(query, fmt.Sprintf("$%d", i+1), value)
		}
	}
	p.text.WriteString(strings.TrimSpace(query) + ";\n")
	return nil, nil
}

// QueryContext is not used by what is written down.
func (p *plan) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	return nil, sql.ErrConnDone
}

// QueryRowContext is not used by what is written down.
func (p *plan) QueryRowContext(context.Context, string, ...any) *sql.Row { return nil }
