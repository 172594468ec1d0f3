package mysql_test

import (
	"strings"
	"testing"

	"github.com/settlemq/settle/store/migrate"
)

func TestAWordForRowsThatWereSentIsNotTakenForOneOfRowsThatWait(t *testing.T) {
	c := newClassic(t, classicTable)
	c.insert(1, 5, "SENT")
	pending := migrate.AdoptConfig{Status: map[string][]string{migrate.StatusPending: {"SENT"}}}
	if _, err := c.tryAdopt(pending); err == nil || !strings.Contains(err.Error(), "status pending=SENT would send 5 rows once more") {
		t.Errorf("it says %v", err)
	}
	c.exec(`UPDATE t_outbox_event SET status = 'GONE_OUT'`)
	c.adopt(migrate.AdoptConfig{Status: map[string][]string{migrate.StatusSent: {"GONE_OUT"}}})
	pending.Status[migrate.StatusPending] = []string{"GONE_OUT"}
	if _, err := c.tryAdopt(pending); err == nil || !strings.Contains(err.Error(), "would send 5 rows once more") {
		t.Errorf("of a word that was decided it says %v", err)
	}
}
