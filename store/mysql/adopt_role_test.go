package mysql_test

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
	"github.com/settlemq/settle/store/mysql"
)

func TestARoleThatMayOnlyReadAndUpdateTheTableAdoptsAndRelaysIt(t *testing.T) {
	c := newClassic(t, classicTable)
	c.insert(1, 3, "PENDING")
	name := "test_" + strings.ReplaceAll(settle.NewID(), "-", "")[10:]
	account := "'" + name + "'@'%'"
	c.exec("CREATE USER " + account + " IDENTIFIED BY 'canary'")
	t.Cleanup(func() { c.exec("DROP USER " + account) })
	u, err := url.Parse(c.at)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "canary")
	c.at = u.String()
	own := "`" + strings.ReplaceAll(c.own, "_", "\\_") + "`.*"
	for _, step := range []struct{ says, grant string }{
		{"a right is missing|there is no table", "GRANT ALL ON " + own + " TO " + account},
		{"GRANT SELECT ON " + c.table(), "GRANT SELECT ON " + c.table() + " TO " + account},
		{"GRANT UPDATE ON " + c.table(), "GRANT UPDATE (status, retry_count, next_retry_time, last_error, updated_at) ON " + c.table() + " TO " + account},
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
	store, err := mysql.Open(t.Context(), c.settle(), mysql.Config{})
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
