package cli_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// onPostgres is how programs that know nothing of Settle write to PostgreSQL.
func onPostgres() dialect {
	return dialect{
		insert: `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES ($1, 'thing.done', $2, $3) ON CONFLICT (event_id) DO NOTHING`,
		connect: func(ctx context.Context, at, first string) (session, error) {
			conn, err := connect(ctx, at, first)
			if err != nil {
				return nil, err
			}
			return pgxSession{conn}, nil
		},
		rows: postgresRows,
	}
}

type pgxSession struct{ conn *pgx.Conn }

func (s pgxSession) exec(ctx context.Context, query string, args ...any) error {
	_, err := s.conn.Exec(ctx, query, args...)
	return err
}

func (s pgxSession) close(ctx context.Context) { _ = s.conn.Close(ctx) }

func connect(ctx context.Context, at, session string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(at)
	if err != nil {
		return nil, err
	}
	cfg.ConnectTimeout = 2 * time.Second
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil || session == "" {
		return conn, err
	}
	if _, err := conn.Exec(ctx, session); err != nil {
		return nil, err
	}
	return conn, nil
}

func postgresRows(t *testing.T, ctx context.Context, at string) (all []tableRow) {
	t.Helper()
	conn, err := connect(ctx, at, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, "SELECT event_id, aggregate_id, convert_from(payload, 'UTF8') FROM t_outbox_event ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	var r tableRow
	if _, err := pgx.ForEachRow(rows, []any{&r.id, &r.key, &r.payload}, func() error { all = append(all, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// hold runs a statement in a transaction that stays open until it is let go.
func hold(t *testing.T, at, statement string) (letGo func()) {
	t.Helper()
	conn, err := connect(t.Context(), at, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, q := range []string{"BEGIN", statement} {
		if _, err := conn.Exec(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	return func() {
		if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
			t.Errorf("end the transaction: %v", err)
		}
	}
}
