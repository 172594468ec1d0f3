package mysql

import (
	"io/fs"
	"strings"
	"testing"
)

func TestTheMigrationsOfAnAdoptedOutboxAreWholeAndHaveTheServersNames(t *testing.T) {
	files, err := server{exact: "utf8mb4_nopad_bin"}.layout(true)
	if err != nil {
		t.Fatal(err)
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil || len(names) < 5 {
		t.Fatalf("the migrations are %q, %v", names, err)
	}
	made := ""
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(string(text), exactly) || strings.Contains(string(text), "Here is what stands") {
			t.Errorf("%s is not as the server takes it", name)
		}
		made += string(text)
	}
	for _, table := range []string{"settle_adoption", "t_outbox_lease", "t_outbox_checkpoint", "settle_control_version", "t_outbox_division", "t_message_consume_log"} {
		if strings.Count(made, "CREATE TABLE IF NOT EXISTS "+table+" (") != 1 {
			t.Errorf("%s is not made once", table)
		}
	}
	if strings.Contains(made, "CREATE TABLE IF NOT EXISTS t_outbox_event") {
		t.Error("an outbox of our own is made beside the adopted one")
	}
}
