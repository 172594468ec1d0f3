package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/settlemq/settle/store/migrate"
)

// ownSuffix makes the name of Settle's own database of that of a table.
const ownSuffix = "_settle"

// Adopt makes a table of another owner the outbox of a database of Settle's own
// on the same server. It creates nothing in the table's database, alters nothing
// there and holds no lock that anybody waits for. NewAdopt does no I/O.
type Adopt struct {
	base *driver.Config
	cfg  migrate.AdoptConfig
}

// NewAdopt prepares the adoption of a table on the server at url. The URL names
// the table's database, and Settle's tables are, or will be, in one of that name
// with _settle behind it; or it names Settle's own database, and cfg.Table says
// where the table is.
func NewAdopt(url string, cfg migrate.AdoptConfig) (*Adopt, error) {
	base, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	base.Timeout = Config{}.withDefaults().ConnectTimeout
	return &Adopt{base: base, cfg: cfg}, nil
}

// Plan looks at the table and returns what adopting it will do. It changes
// nothing. What keeps it from being done is among the plan's Refusals.
func (a *Adopt) Plan(ctx context.Context) (migrate.AdoptPlan, error) {
	var p migrate.AdoptPlan
	err := a.with(ctx, func(l *adoptLook) error {
		err := a.look(ctx, l)
		p = l.Plan
		return err
	})
	if err != nil {
		return p, fmt.Errorf("look at the table: %w", err)
	}
	return p, nil
}

// SQL returns what Run would run, for whoever may change the database. The
// numbers in it are those of now.
func (a *Adopt) SQL(ctx context.Context) (string, error) {
	var text string
	err := a.with(ctx, func(l *adoptLook) (err error) {
		if err := a.look(ctx, l); err != nil {
			return err
		}
		if err := l.Err(); err != nil {
			return err
		}
		text, err = a.script(ctx, l)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("plan the adoption: %w", err)
	}
	return text, nil
}

// Run adopts the table, or changes how it is read, and returns what it went by.
// After a crash half-way it goes on where that one ended.
//
// Crash here: between any two of its statements nothing is sent yet, because
// processes refuse a database whose adoption is not finished.
func (a *Adopt) Run(ctx context.Context) (migrate.AdoptPlan, error) {
	var p migrate.AdoptPlan
	err := a.with(ctx, func(l *adoptLook) error {
		err := a.look(ctx, l)
		if p = l.Plan; err != nil {
			return err
		}
		if err := l.Err(); err != nil {
			return err
		}
		return a.run(ctx, l)
	})
	if err != nil {
		return p, fmt.Errorf("adopt the table: %w", err)
	}
	return p, nil
}

const (
	hasDatabase = `SELECT count(*) > 0 FROM information_schema.schemata WHERE schema_name = ?`

	// A database is Settle's own once it has been migrated; others leave theirs alone.
	ownTables   = `SELECT count(*) > 0 FROM information_schema.tables WHERE table_schema = ? AND table_name = '` + migrate.Table + `'`
	otherTables = `SELECT count(*) > 0 FROM information_schema.tables WHERE table_schema = ?`
)

// with looks where everything is, and calls do with a connection to Settle's own
// database, or to none where it is not there yet.
func (a *Adopt) with(ctx context.Context, do func(l *adoptLook) error) (err error) {
	first, err := a.connect("", server{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(explain(err), first.Close()) }()
	is, err := look(ctx, first)
	if err != nil {
		return err
	}
	l := newLook(a.cfg, is)
	if err := a.place(ctx, first, l); err != nil {
		return err
	}
	if err := first.QueryRowContext(ctx, hasDatabase, l.own).Scan(&l.there); err != nil {
		return err
	}
	at := ""
	if l.there {
		at = l.own
	}
	if l.db, err = a.connect(at, is); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.db.Close()) }()
	return do(l)
}

// place finds Settle's own database, and that of the service.
func (a *Adopt) place(ctx context.Context, db *sql.DB, l *adoptLook) error {
	named := a.base.DBName
	var own bool
	if err := db.QueryRowContext(ctx, ownTables, named).Scan(&own); err != nil {
		return err
	}
	elsewhere := false
	for _, name := range []string{a.cfg.Table, a.cfg.ConsumeLog} {
		if parts, ok := parseName(name); ok && len(parts) == 2 && parts[0] != named {
			elsewhere = true
		}
	}
	l.own, l.service = named+ownSuffix, named
	if before, is := strings.CutSuffix(named, ownSuffix); own || is || elsewhere {
		l.own, l.service = named, ""
		if is {
			l.service = before
		}
	}
	l.Plan.Schema, l.Plan.Place, l.Plan.Reach = l.own, "database "+l.own, "/"+l.own+" as its database"
	return nil
}

// connect opens sessions in UTC that wait for nobody for long, and hold nothing
// between statements.
func (a *Adopt) connect(database string, is server) (*sql.DB, error) {
	cfg := a.base.Clone()
	cfg.DBName = database
	set := map[string]string{"time_zone": "'+00:00'", "sql_mode": strictly, "lock_wait_timeout": "3", "innodb_lock_wait_timeout": "3", "group_concat_max_len": "4194304"}
	if is.version != "" {
		set[is.isolation()] = "'READ-COMMITTED'"
	}
	if is.mariadb {
		set["max_statement_time"] = "300"
	}
	return pool(cfg, set, 2, time.Minute)
}

// parseName takes a table's name apart, as SQL writes it: with its database or
// without, each part in backticks or plain.
func parseName(name string) (parts []string, ok bool) {
	for rest := name; ; {
		var part string
		if strings.HasPrefix(rest, "`") {
			end := strings.Index(strings.ReplaceAll(rest[1:], "``", "  "), "`")
			if end < 0 {
				return nil, false
			}
			part, rest = strings.ReplaceAll(rest[1:end+1], "``", "`"), rest[end+2:]
		} else {
			end := strings.IndexByte(rest, '.')
			if end < 0 {
				end = len(rest)
			}
			if part, rest = rest[:end], rest[end:]; plain(part) != part {
				return nil, false
			}
		}
		if parts = append(parts, part); part == "" || len(parts) > 2 {
			return nil, false
		}
		if rest == "" {
			return parts, true
		}
		if rest[0] != '.' {
			return nil, false
		}
		rest = rest[1:]
	}
}
