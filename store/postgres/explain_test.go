package postgres_test

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// What is wrong with a schema is said in one sentence by whatever meets it, with
// what mends it.
func TestWhatIsWrongWithASchemaIsSaidInASentenceWithWhatMendsIt(t *testing.T) {
	calls := map[string]func(ctx context.Context, s *postgres.Store) error{
		"poll": func(ctx context.Context, s *postgres.Store) error {
			_, err := s.Log().Poll(ctx, relay.PollQuery{MaxRows: 1, MaxBytes: 1000})
			return err
		},
		"load": func(ctx context.Context, s *postgres.Store) error {
			_, err := s.Log().Load(ctx, relay.Lease{})
			return err
		},
		"apply": func(ctx context.Context, s *postgres.Store) error {
			_, err := s.Inbox().Apply(ctx, settle.Work{Group: "g", Items: []settle.Item{concurrent.Item("a", 1)}}, func(context.Context, *sql.Tx, int) error { return nil })
			return err
		},
		"due": func(ctx context.Context, s *postgres.Store) error {
			_, err := s.Inbox().Due(ctx, "g", 1)
			return err
		},
		"trail": func(ctx context.Context, s *postgres.Store) error {
			_, err := s.Governance().Trail(ctx, "a")
			return err
		},
	}
	for name, c := range map[string]struct {
		plant string
		met   []string
		want  string
	}{
		"a column that is missing": {`ALTER TABLE t_consume_retry DROP COLUMN next_at CASCADE`, []string{"due"}, "`settle doctor` names"},
		"a table that is missing":  {`DROP TABLE t_outbox_checkpoint CASCADE`, []string{"poll", "load"}, "`settle doctor` names"},
		"a column of another type": {`ALTER TABLE t_message_consume_log ALTER COLUMN processed_at TYPE bigint USING 0`, []string{"apply"}, "`settle doctor` names"},
		"a right that is missing":  {`REVOKE ALL ON t_consume_retry FROM %role`, []string{"apply", "due", "trail"}, "GRANT SELECT, INSERT, UPDATE, DELETE ON \"t_consume_retry\" TO"},
		"a sequence without a right": {`REVOKE ALL ON ALL SEQUENCES IN SCHEMA %schema FROM %role; REVOKE USAGE ON SCHEMA %schema FROM %role`, []string{"poll", "apply"},
			"`settle doctor` names"}, // what a schema that can't be used holds is not there
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := roleWith(t, `lock_timeout = '5s'`)
			u, err := url.Parse(at)
			if err != nil {
				t.Fatal("the URL can't be read")
			}
			s := postgres.OpenForTest(t, at, postgres.Config{MaxConns: 2})
			for _, query := range strings.Split(c.plant, "; ") {
				query = strings.ReplaceAll(strings.ReplaceAll(query, "%role", u.User.Username()), "%schema", s.Service())
				if _, err := s.DB().Exec(query); err != nil {
					t.Fatal(err)
				}
			}
			for _, call := range c.met {
				err := calls[call](t.Context(), s)
				if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || strings.Count(err.Error(), c.want) != 1 {
					t.Errorf("%s says %v, want %q once, in one line", call, err, c.want)
				}
			}
		})
	}
}

func TestAServerThatCanNotBeWrittenToIsToldByOpenAndSchema(t *testing.T) {
	at := roleWith(t, `default_transaction_read_only = on`)
	_, open := postgres.Open(t.Context(), at, postgres.Config{})
	_, schema := postgres.Schema(t.Context(), as(t, at, "nobody"), true)
	for want, err := range map[string]error{"give the URL of the primary": open, "ALTER ROLE \"nobody\" LOGIN PASSWORD": schema} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("says %v, want %q", err, want)
		}
	}
}

func TestAMigrationOfWhichARunByHandHasLeftAPartSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	at := postgres.DatabaseForTest(t)
	store := postgres.OpenForTest(t, at, postgres.Config{})
	if _, err := store.DB().Exec("DELETE FROM settle_schema WHERE version_id = (SELECT max(version_id) FROM settle_schema)"); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Schema(t.Context(), at, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Up(t.Context())
	if err = s.Explain(err); err == nil || !strings.Contains(err.Error(), "stopped half-way") || !strings.Contains(err.Error(), "--dry-run") || strings.Contains(err.Error(), "\n") {
		t.Errorf("it says %v", err)
	}
}

func TestAMigrationByARoleThatMayNotSaysWhatTheOwnerCanDo(t *testing.T) {
	t.Parallel()
	admin := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{})
	at := roleWith(t, `search_path = '`+admin.Service()+`'`)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.DB().Exec("GRANT USAGE ON SCHEMA " + admin.Service() + " TO " + u.User.Username()); err != nil {
		t.Fatal(err)
	}
	u.RawQuery = ""
	s, err := postgres.Schema(t.Context(), u.String(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, status := s.Status(t.Context())
	conn, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	_, alter := conn.Exec(t.Context(), "ALTER TABLE t_outbox_gap ADD COLUMN note text")
	for want, err := range map[string]error{
		`the owner can: GRANT SELECT, INSERT, UPDATE, DELETE ON "settle_schema" TO …`: status,
		`the owner can: do it, or ALTER TABLE "t_outbox_gap" OWNER TO …`:              alter,
	} {
		if err = s.Explain(err); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "`settle doctor` names every right") {
			t.Errorf("it says %v, want %q", err, want)
		}
	}
}
