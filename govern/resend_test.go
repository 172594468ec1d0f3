package govern_test

import (
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/govern"
)

func TestAResendIsNumberedOrRefusedWithWhatToDoInstead(t *testing.T) {
	const old, young = "01937b3c-0000-7000-8000-000000000000", "01a3f000-0000-7000-8000-000000000000"
	oldest := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		of        govern.Outgoing
		message   string
		says, not string
	}{
		"sent once":                 {of: govern.Outgoing{EventID: "e", Status: "SENT"}, message: "e#1"},
		"sent, and twice again":     {of: govern.Outgoing{EventID: "e", Status: "SENT", Resends: 2}, message: "e#3"},
		"a dead letter":             {of: govern.Outgoing{Service: "order", Status: "DEAD", Letter: 7}, says: "settle dead replay order:7"},
		"discarded":                 {of: govern.Outgoing{Status: "DISCARDED"}, says: "supersedes it"},
		"in retry":                  {of: govern.Outgoing{Status: "RETRY", Parked: true}, says: "tries again by itself"},
		"behind its key":            {of: govern.Outgoing{Status: "PENDING", Parked: true}, says: "behind another event of its key"},
		"asked for":                 {of: govern.Outgoing{Status: "PENDING", Asked: true}, says: "already"},
		"asked for and parked":      {of: govern.Outgoing{Status: "PENDING", Asked: true, Parked: true}, says: "behind another event of its key"},
		"delayed":                   {of: govern.Outgoing{Status: "PENDING", Due: oldest}, says: "2026-03-01T12:00:00Z"},
		"pending":                   {of: govern.Outgoing{Status: "PENDING"}, says: "settle doctor"},
		"unknown, none was deleted": {of: govern.Outgoing{EventID: old, Lowest: 1, Oldest: oldest}, says: "has deleted none", not: "supersedes"},
		"older than all":            {of: govern.Outgoing{EventID: old, Lowest: 9, Oldest: oldest}, says: "its row is gone: events from before 2026-03-01"},
		"younger, and not there":    {of: govern.Outgoing{EventID: young, Lowest: 9, Oldest: oldest}, says: "keeps all from 2026-03-01", not: "supersedes"},
		"an id without a time":      {of: govern.Outgoing{EventID: "e", Lowest: 9, Oldest: oldest}, says: "if it is from before 2026-03-01"},
		"all were deleted":          {of: govern.Outgoing{EventID: old, Lowest: 9}, says: "every event was deleted"},
	} {
		message, why := c.of.Next()
		if message != c.message || !strings.Contains(why, c.says) || c.not != "" && strings.Contains(why, c.not) || (message == "") != (why != "") {
			t.Errorf("%s: message id %q, refused because %q; want %q, %q", name, message, why, c.message, c.says)
		}
	}
}
