package mysql_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/internal/myserver"
	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// killable is a database on a server that the test may kill, whose commits reach
// the disk as innodb_flush_log_at_trx_commit says, without a binary log's help.
func killable(t testing.TB, own *myserver.Server, flush int) concurrent.Mortal[*sql.Tx] {
	t.Helper()
	name := strings.ReplaceAll("cut_"+settle.NewID(), "-", "")
	setFlush := func() {
		own.Exec(fmt.Sprint("SET GLOBAL sync_binlog = 0, GLOBAL innodb_flush_log_at_trx_commit = ", flush))
	}
	own.Exec("CREATE DATABASE " + name)
	setFlush()
	u := own.At()
	u.Path = "/" + name
	return concurrent.Mortal[*sql.Tx]{
		Outbox: written(t, mysql.OpenForTest(t, u.String(), mysql.Config{})),
		Kill:   own.Kill,
		Start: func() {
			own.Start()
			setFlush()
		},
	}
}

// With 2, a commit is handed to the system after it can be seen: a server that
// is killed in between forgets it. With 0 it does so for a second.
func TestNothingIsPublishedThatAPowerCutTakesBack(t *testing.T) {
	onlyLong(t)
	own := myserver.Own(t)
	concurrent.NothingTakenBack(t, func(t testing.TB, careless bool) concurrent.Mortal[*sql.Tx] {
		if careless {
			return killable(t, own, 0)
		}
		return killable(t, own, 2)
	})
}
