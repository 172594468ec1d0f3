package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/migrate"
)

// migrateAdopted makes Settle's own tables, or brings them up to date. The
// caller holds the lock.
func migrateAdopted(ctx context.Context, cfg *pgx.ConnConfig, adopted bool) error {
	files, err := layout(adopted)
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*cfg)
	defer func() { _ = db.Close() }()
	return migrate.Up(ctx, db, migrate.Postgres, files)
}

// script is what Run would run, as one text.
func (a *Adopt) script(ctx context.Context, l *adoptLook) (string, error) {
	files, err := layout(!l.alone)
	if err != nil {
		return "", err
	}
	source := migrate.Source{Dialect: migrate.Postgres, Files: files}
	if l.before != nil || l.own {
		db := stdlib.OpenDB(*l.conn.Config())
		defer func() { _ = db.Close() }()
		source.DB = db
	}
	steps, err := migrate.NewSchema(source).Plan(ctx)
	if err != nil {
		return "", err
	}
	decided, err := json.Marshal(l.adoption)
	if err != nil {
		return "", err
	}
	own := pgx.Identifier{a.schema}.Sanitize()
	var b strings.Builder
	say := func(comment string, statements ...string) {
		fmt.Fprintf(&b, "-- %s\n", comment)
		for _, s := range statements {
			b.WriteString(strings.TrimSpace(s) + ";\n")
		}
	}
	say("Settle's own tables; nothing is made in the schema of "+cmp.Or(l.Plan.Table, l.Plan.ConsumeLog), "CREATE SCHEMA IF NOT EXISTS "+own, "SET search_path = "+own)
	b.WriteString(steps)
	if l.shared != nil {
		shared, err := json.Marshal(l.shared)
		if err != nil {
			return "", err
		}
		say("how the consume log is shared", strings.ReplaceAll(putSharedLog, "$1", literal(string(shared))))
	}
	if l.alone {
		return b.String(), nil
	}
	say("how the table is read", append([]string{strings.ReplaceAll(putAdoption, "$1", literal(string(decided)))}, l.adoption.functions(a.schema)...)...)
	if !l.Plan.Adopted {
		s := a.listing(l.adoption)
		if l.Done {
			say("what another relay has done since is not known: all begins anew", forgetPosition)
		}
		park := strings.NewReplacer("$1", literal(string(settle.ClassPublish)), "$2", literal(string(settle.ClassFollower))).Replace(s.park)
		say("what waits now; no other process may run a relay on this schema before the last line",
			s.highest, park, strings.ReplaceAll(s.list, "$1", "9000000000000000000"), strings.ReplaceAll(s.begin, "$1", fmt.Sprint(openBelow)), finishAdoption)
	}
	return b.String(), nil
}
