package postgres_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
)

func TestARoleThatMayOnlyReadAndUpdateTheTableAdoptsAndRelaysIt(t *testing.T) {
	c := newClassic(t, classicTable)
	c.insert(1, 3, "PENDING")
	name := "test_" + strings.ReplaceAll(settle.NewID(), "-", "")
	c.exec("CREATE ROLE " + name + " LOGIN PASSWORD 'canary'")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if _, err := c.conn.Exec(ctx, "DROP OWNED BY "+name+" CASCADE; DROP ROLE "+name); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(c.at)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "canary")
	c.at = u.String()
	for _, step := range []struct{ says, grant string }{
		{"there is no table|permission denied", "GRANT USAGE ON SCHEMA " + c.schema + " TO " + name},
		{"GRANT SELECT ON", "GRANT SELECT ON t_outbox_event TO " + name},
		{"GRANT UPDATE ON", "GRANT UPDATE ON t_outbox_event TO " + name},
		{"GRANT SELECT ON SEQUENCE", "GRANT SELECT ON SEQUENCE t_outbox_event_id_seq TO " + name},
		{"permission denied|a right is missing", "CREATE SCHEMA " + schemaOf(t, c.at) + " AUTHORIZATION " + name},
	} {
		_, err := c.tryAdopt(migrate.AdoptConfig{})
		ok := false
		for _, want := range strings.Split(step.says, "|") {
			ok = ok || err != nil && strings.Contains(err.Error(), want)
		}
		if !ok {
			t.Errorf("before %s it says %v", step.grant, err)
		}
		c.exec(step.grant)
	}
	c.adopt(migrate.AdoptConfig{})
	b := memory.New(memory.Config{})
	defer func() { _ = b.Close() }()
	store, err := postgres.Open(t.Context(), c.at, postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- relay.New(store.Log(), b, relay.Config{SweepEvery: 50 * time.Millisecond}).Run(ctx) }()
	c.insert(4, 5, "PENDING")
	c.becomes("SENT 5")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
