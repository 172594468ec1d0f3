package mysql_test

import (
	"testing"

	"github.com/settlemq/settle/store/storetest/broken"
)

func TestEveryRuleOfTheInboxSuiteFailsABrokenStore(t *testing.T) { broken.RunInbox(t, inboxes(t)) }
