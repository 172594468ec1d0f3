package sqlite_test

import (
	"database/sql"
	"testing"

	"github.com/settlemq/settle/store/storetest"
	"github.com/settlemq/settle/store/storetest/broken"
)

type inboxStore = storetest.InboxStore[*sql.Tx]

func TestEveryRuleOfTheInboxSuiteFailsABrokenStore(t *testing.T) { broken.RunInbox(t, openInbox) }
