package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
)

func TestManyProcessesMayOpenANewSchemaAtOnce(t *testing.T) {
	at := postgres.DatabaseForTest(t)
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			s, err := postgres.Open(t.Context(), at, postgres.Config{})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	s := postgres.OpenForTest(t, at, postgres.Config{Existing: true})
	var twice int
	if err := s.Reader().QueryRowContext(t.Context(), "SELECT count(*) - count(DISTINCT version_id) FROM "+migrate.Table).Scan(&twice); err != nil || twice != 0 {
		t.Errorf("%d migrations ran twice (%v)", twice, err)
	}
}

func TestWhatCanNotBeOpenedSaysWhyAndShowsNoPassword(t *testing.T) {
	at := postgres.DatabaseForTest(t)
	changed := func(change func(*url.URL)) string {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		change(u)
		return u.String()
	}
	for name, c := range map[string]struct{ url, want string }{
		"password": {changed(func(u *url.URL) { u.User = url.UserPassword("postgres", "s3cret-wrong") }), "user or password"},
		"database": {changed(func(u *url.URL) { u.Path = "/no_such_database" }), "CREATE DATABASE"},
		"server":   {changed(func(u *url.URL) { u.Host = "127.0.0.1:1" }), "connect"},
		"url":      {"postgres://u:s3cret-wrong@[::1", "can't be read"},
		"port":     {"postgres://u:s3cret-wrong@h:port/x", "can't be read"},
	} {
		s, err := postgres.Open(t.Context(), c.url, postgres.Config{ConnectTimeout: 2 * time.Second})
		if err == nil {
			_ = s.Close()
			t.Errorf("%s: opened", name)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), password(t, at)) {
			t.Errorf("%s: says %v, want %q and no password", name, err, c.want)
		}
	}
}

func password(t *testing.T, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := u.User.Password()
	if !ok {
		return "no password is in the URL"
	}
	return p
}

func TestASchemaThatIsNotOursIsLeftAsItIs(t *testing.T) {
	at := postgres.DatabaseForTest(t)
	if _, err := postgres.Open(t.Context(), at, postgres.Config{Existing: true}); !errors.Is(err, postgres.ErrForeign) {
		t.Errorf("says %v, want ErrForeign", err)
	}
	s := postgres.OpenForTest(t, at, postgres.Config{})
	if again := postgres.OpenForTest(t, at, postgres.Config{Existing: true}); again.Service() != s.Service() || s.Service() == "" {
		t.Errorf("services %q and %q", s.Service(), again.Service())
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	at := postgres.DatabaseForTest(t)
	s := postgres.OpenForTest(t, at, postgres.Config{})
	if _, err := s.Pool().Exec(t.Context(), "INSERT INTO "+migrate.Table+" (version_id, is_applied) VALUES (9999, true)"); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(t.Context(), at, postgres.Config{}); !errors.Is(err, migrate.ErrNewerSchema) {
		t.Errorf("says %v, want ErrNewerSchema", err)
	}
}

func TestOpenEndsWithItsContextWhileAnotherMigrates(t *testing.T) {
	at := postgres.DatabaseForTest(t)
	s := postgres.OpenForTest(t, at, postgres.Config{})
	tx, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), "SELECT pg_advisory_xact_lock(hashtext('settle.migrate'), hashtext(current_schema()))"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := postgres.Open(ctx, at, postgres.Config{}); err == nil || ctx.Err() == nil {
		t.Errorf("says %v", err)
	}
}

func TestTheReaderCanNotWrite(t *testing.T) {
	s := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{})
	if _, err := s.Reader().ExecContext(t.Context(), "DELETE FROM t_outbox_event"); err == nil {
		t.Error("it writes")
	}
}
