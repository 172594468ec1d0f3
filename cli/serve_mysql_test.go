package cli_test

import (
	"testing"

	"github.com/settlemq/settle/cli"
)

func TestWhatPlainSQLInsertedIntoMySQLReachesTheBrokerOnceInOrderThoughALeaderIsKilled(t *testing.T) {
	at := mysqlDatabase(t)
	must(t, cli.ExitOK, "migrate", "--db", at)
	deliverThoughALeaderIsKilled(t, at, "mysql", mysqlDSN(t, at), 200)
}
