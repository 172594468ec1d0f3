package mysql

import (
	"net/url"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/doctor"
)

// A server that is shared can't be set otherwise, so what would be read of it is
// given here.
func TestADoctorJudgesTheServersSettings(t *testing.T) {
	for _, c := range []struct {
		check    string
		settings map[string]string
		want     doctor.Verdict
	}{
		{"innodb_flush_log_at_trx_commit", map[string]string{"innodb_flush_log_at_trx_commit": "1"}, doctor.OK},
		{"innodb_flush_log_at_trx_commit", map[string]string{"innodb_flush_log_at_trx_commit": "2"}, doctor.Bad},
		{"innodb_flush_log_at_trx_commit", map[string]string{"innodb_flush_log_at_trx_commit": "0"}, doctor.Bad},
		{"innodb_flush_log_at_trx_commit", map[string]string{"innodb_flush_log_at_trx_commit": "1", "innodb_flush_method": "nosync"}, doctor.Bad},
		{"sync_binlog", map[string]string{"log_bin": "OFF", "sync_binlog": "0"}, doctor.OK},
		{"sync_binlog", map[string]string{"log_bin": "ON", "sync_binlog": "0"}, doctor.Bad},
		{"sync_binlog", map[string]string{"log_bin": "ON", "sync_binlog": "1"}, doctor.OK},
		{"innodb_doublewrite", map[string]string{"innodb_doublewrite": "OFF"}, doctor.Bad},
		{"innodb_doublewrite", map[string]string{"innodb_doublewrite": "ON"}, doctor.OK},
		{"binlog_format", map[string]string{"log_bin": "ON", "binlog_format": "STATEMENT"}, doctor.Bad},
		{"binlog_format", map[string]string{"log_bin": "ON", "binlog_format": "MIXED"}, doctor.OK},
		{"writable", map[string]string{"read_only": "ON"}, doctor.Bad},
		{"writable", map[string]string{"super_read_only": "1"}, doctor.Bad},
		{"writable", map[string]string{"read_only": "OFF"}, doctor.OK},
		{"cluster", map[string]string{"wsrep_on": "ON"}, doctor.Warn},
		{"cluster", map[string]string{"group_replication_group_name": "g", "group_replication_single_primary_mode": "OFF"}, doctor.Warn},
		{"cluster", map[string]string{"group_replication_group_name": "g", "group_replication_single_primary_mode": "ON"}, doctor.OK},
		{"innodb_autoinc_lock_mode", map[string]string{"innodb_autoinc_lock_mode": "0"}, doctor.Warn},
		{"innodb_autoinc_lock_mode", map[string]string{"innodb_autoinc_lock_mode": "2", "log_bin": "ON", "binlog_format": "STATEMENT"}, doctor.Bad},
		{"innodb_autoinc_lock_mode", map[string]string{"innodb_autoinc_lock_mode": "2", "log_bin": "ON", "binlog_format": "ROW"}, doctor.OK},
		{"auto_increment_increment", map[string]string{"auto_increment_increment": "2"}, doctor.Warn},
		{"auto_increment_increment", map[string]string{"auto_increment_increment": "3", "wsrep_on": "ON"}, doctor.OK},
		{"sql_mode", map[string]string{"sql_mode": "NO_ENGINE_SUBSTITUTION"}, doctor.Warn},
		{"sql_mode", map[string]string{"sql_mode": "STRICT_ALL_TABLES,PAD_CHAR_TO_FULL_LENGTH"}, doctor.Warn},
		{"sql_mode", map[string]string{"sql_mode": "STRICT_TRANS_TABLES"}, doctor.OK},
		{"isolation", map[string]string{"tx_isolation": "SERIALIZABLE"}, doctor.Warn},
		{"isolation", map[string]string{"transaction_isolation": "READ-UNCOMMITTED"}, doctor.Warn},
		{"isolation", map[string]string{"transaction_isolation": "REPEATABLE-READ"}, doctor.OK},
		{"max_allowed_packet", map[string]string{"max_allowed_packet": "1048576"}, doctor.Bad},
		{"max_allowed_packet", map[string]string{"max_allowed_packet": "8388608"}, doctor.Warn},
		{"max_allowed_packet", map[string]string{"max_allowed_packet": "16777216"}, doctor.OK},
		{"wait_timeout", map[string]string{"wait_timeout": "30"}, doctor.Warn},
		{"wait_timeout", map[string]string{"wait_timeout": "28800"}, doctor.OK},
		{"group_concat", map[string]string{"group_concat_max_len": "1024"}, doctor.Warn},
		{"group_concat", map[string]string{"group_concat_max_len": "1048576"}, doctor.OK},
	} {
		x := &examination{settings: c.settings}
		for _, k := range append(x.serverChecks(), x.sessionDefaults()...) {
			if k.name != c.check {
				continue
			}
			f := x.run(t.Context(), k)
			if f.Verdict != c.want || f.Verdict != doctor.OK && f.Fix == "" || strings.Contains(f.Found, "looked at") {
				t.Errorf("with %v: %+v, want %s", c.settings, f, c.want)
			}
		}
	}
}

// userForTest makes a user who may do to the database only what rights say, and
// returns the URL with which he comes.
func userForTest(t *testing.T, at, rights string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	name := "test_" + strings.ReplaceAll(settle.NewID(), "-", "")[10:26]
	execForTest(t, at, "CREATE USER "+name+"@'%' IDENTIFIED BY 'pw'")
	t.Cleanup(func() { execForTest(t, at, "DROP USER "+name+"@'%'") })
	execForTest(t, at, "GRANT "+rights+" TO "+name+"@'%'")
	u.User = url.UserPassword(name, "pw")
	return u.String()
}

func TestADoctorNamesTheRightsThatAUserLacks(t *testing.T) {
	at := DatabaseForTest(t)
	OpenForTest(t, at, Config{})
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	few := userForTest(t, at, "SELECT, INSERT ON "+u.Path[1:]+".*")
	by := diagnose(t, few, DoctorConfig{})
	f := by["privileges"]
	if f.Verdict != doctor.Bad || !strings.Contains(f.Found, "lacks UPDATE, DELETE on t_outbox_event, ") || strings.Contains(f.Found, "t_audit,") || !strings.Contains(f.Fix, "GRANT UPDATE, DELETE ON") {
		t.Errorf("%+v", f)
	}
	if f := by["process_right"]; f.Verdict != doctor.Warn || !strings.Contains(f.Fix, "GRANT PROCESS") {
		t.Errorf("%+v", f)
	}
	for grant := range strings.SplitSeq(f.Fix, "; ") {
		execForTest(t, at, grant)
	}
	if f := diagnose(t, few, DoctorConfig{})["privileges"]; f.Verdict != doctor.OK {
		t.Errorf("after its own SQL: %+v", f)
	}
}

func TestADoctorSaysWhyThereIsNoConnection(t *testing.T) {
	at := serverForTest(t)
	stranger := "t" + strings.ReplaceAll(settle.NewID(), "-", "")[20:]
	execForTest(t, at, "CREATE USER "+stranger+"@'%' IDENTIFIED BY 'pw'")
	t.Cleanup(func() { execForTest(t, at, "DROP USER "+stranger+"@'%'") })
	for name, c := range map[string]struct {
		spoil func(u *url.URL)
		want  string
	}{
		"a wrong password":   {func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "s3cret") }, "put the right password into the URL"},
		"a missing database": {func(u *url.URL) { u.Path = "/test_is_not_there" }, "CREATE DATABASE `test_is_not_there`"},
		"a right is missing": {func(u *url.URL) { u.User = url.UserPassword(stranger, "pw") },
			".* TO '" + stranger + "'@'%'"},
		"nobody listens":       {func(u *url.URL) { u.Host = "127.0.0.1:1" }, "nothing listens there"},
		"a setting not known":  {func(u *url.URL) { u.RawQuery = "charset=latin1" }, `"charset" is not known`},
		"an unknown host name": {func(u *url.URL) { u.Host = "no-such-host.invalid:3306" }, "can't be resolved"},
	} {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		c.spoil(u)
		_, err = NewDoctor(u.String(), DoctorConfig{}).Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want one sentence with %q", name, err, c.want)
		}
	}
}
