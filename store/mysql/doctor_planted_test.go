package mysql

import (
	"os"
	"strings"
	"testing"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/internal/myserver"
)

// Each setting is planted into a server that runs, and mended by the doctor's
// own SQL where that can be done while it runs.
func TestADoctorFindsEachSettingThatIsPlantedIntoAServerAndItsSQLMendsIt(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("takes long: SETTLE_TEST_ALL=1 runs it")
	}
	own := myserver.Own(t)
	at := own.Database("planted")
	OpenForTest(t, at, Config{})
	rights := own.At()
	rights.Path = "/planted"
	sound := diagnose(t, rights.String(), DoctorConfig{})
	for _, c := range []struct {
		check   string
		verdict doctor.Verdict
		plant   string
		found   string
		after   string
	}{
		{"innodb_flush_log_at_trx_commit", doctor.Bad, "SET GLOBAL innodb_flush_log_at_trx_commit = 0", "when the server ends", ""},
		{"innodb_flush_log_at_trx_commit", doctor.Bad, "SET GLOBAL innodb_flush_log_at_trx_commit = 2", "when the machine does", ""},
		{"sync_binlog", doctor.Bad, "SET GLOBAL sync_binlog = 0", "rolled back after a power cut", ""},
		{"binlog_format", doctor.Bad, "SET GLOBAL binlog_format = 'STATEMENT'", "STATEMENT", ""},
		{"innodb_autoinc_lock_mode", doctor.Bad, "SET GLOBAL binlog_format = 'STATEMENT'", "a replica gives other ids", ""},
		{"sql_mode", doctor.Warn, "SET GLOBAL sql_mode = 'NO_ENGINE_SUBSTITUTION'", "is not strict", ""},
		{"sql_mode", doctor.Warn, "SET GLOBAL sql_mode = 'STRICT_TRANS_TABLES,PAD_CHAR_TO_FULL_LENGTH'", "keys with spaces", ""},
		{"isolation", doctor.Warn, "SET GLOBAL tx_isolation = 'SERIALIZABLE'", "SERIALIZABLE", ""},
		{"isolation", doctor.Warn, "SET GLOBAL tx_isolation = 'READ-UNCOMMITTED'", "READ-UNCOMMITTED", ""},
		{"max_allowed_packet", doctor.Bad, "SET GLOBAL max_allowed_packet = 1048576", "1048576 bytes", ""},
		{"max_allowed_packet", doctor.Warn, "SET GLOBAL max_allowed_packet = 8388608", "8388608 bytes", ""},
		{"wait_timeout", doctor.Warn, "SET GLOBAL wait_timeout = 20", "20 s", ""},
		{"group_concat", doctor.Warn, "SET GLOBAL group_concat_max_len = 1024", "after 1024 bytes", ""},
		{"time_zone", doctor.Warn, "SET GLOBAL time_zone = '+08:00'", "+08:00 is not UTC", ""},
		{"writable", doctor.Bad, "SET GLOBAL read_only = ON", "read_only is on", ""},
		{"auto_increment_increment", doctor.Warn, "SET GLOBAL auto_increment_increment = 2", "2: of as many ids", ""},
		{"connections", doctor.Bad, "SET GLOBAL max_connections = 20", "the server allows 20", ""},
		{"replicas", doctor.Warn, "SET GLOBAL rpl_semi_sync_master_enabled = ON", "none is seen to follow", "SET GLOBAL rpl_semi_sync_master_enabled = OFF"},
	} {
		if f := sound[c.check]; f.Verdict != doctor.OK {
			t.Errorf("before anything is planted: %+v", f)
		}
		own.Exec(c.plant)
		f := diagnose(t, rights.String(), DoctorConfig{})[c.check]
		if f.Verdict != c.verdict || !strings.Contains(f.Found, c.found) {
			t.Errorf("%s: %+v, want %s and %q", c.plant, f, c.verdict, c.found)
		}
		if c.after == "" {
			_, fix, _ := strings.Cut(f.Fix, "SET GLOBAL ")
			fix, _, _ = strings.Cut(fix, ", and the same below")
			c.after = "SET GLOBAL " + fix
		}
		own.Exec(c.after)
		if f := diagnose(t, rights.String(), DoctorConfig{})[c.check]; f.Verdict != doctor.OK {
			t.Errorf("%s, and %s: %+v", c.plant, c.after, f)
		}
	}
}

func TestADoctorFindsThatRowsWereUpdatedWhereTheServerCounts(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("takes long: SETTLE_TEST_ALL=1 runs it")
	}
	own := myserver.Own(t)
	at := own.Database("counted")
	own.Set("performance_schema = ON")
	OpenForTest(t, at, Config{}).plant(t, insertOf("e"))
	all := own.At()
	all.Path = "/counted"
	if f := diagnose(t, all.String(), DoctorConfig{})["old_relay"]; f.Verdict != doctor.OK || f.Found != "none seen" {
		t.Errorf("before: %+v", f)
	}
	own.Exec("UPDATE counted.t_outbox_event SET version = 2")
	if f := diagnose(t, all.String(), DoctorConfig{})["old_relay"]; f.Verdict != doctor.Bad || !strings.Contains(f.Found, "updated 1 times") {
		t.Errorf("%+v", f)
	}
	if f := diagnose(t, at, DoctorConfig{})["old_relay"]; f.Verdict != doctor.OK || !strings.Contains(f.Found, "does not count updates for app") {
		t.Errorf("for who may not see it: %+v", f)
	}
}
