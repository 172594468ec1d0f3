package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/settlemq/settle/doctor"
)

func (x *examination) serverChecks() []check {
	return []check{
		{"server_version", "older servers lack what the statements use", x.serverVersion},
		{"writable", "the relay and consumers write with every step", x.writable},
		{"innodb_flush_log_at_trx_commit", "a fact that was answered as committed, and its event, must outlive a crash of the server", x.flushLog},
		{"sync_binlog", "with a binary log a commit counts after a crash only if it is in that log; what is not there is rolled back", x.syncBinlog},
		{"innodb_doublewrite", "without it a power cut in the middle of a page may corrupt tables beyond repair", x.doublewrite},
		{"binlog_format", "InnoDB refuses to write in READ COMMITTED, as Settle does, where statements are logged", x.binlogFormat},
		{"replicas", "a failover to a replica that is behind loses committed events", x.replicas},
		{"cluster", "nodes give ids side by side and refuse commits that conflict: only through one node are ids in order, and missing ones told apart", x.cluster},
		{"innodb_autoinc_lock_mode", "it decides how long an INSERT holds what gives the ids", x.autoincLock},
		{"auto_increment_increment", "each id that is left out is one that the relay waits for, as if a transaction still had it", x.increment},
	}
}

// setGlobal is the SQL that mends a setting of the server.
func setGlobal(name, value string) string {
	return fmt.Sprintf("SET GLOBAL %s = %s, and the same below [mysqld] in the server's file", name, value)
}

// on reports whether a setting is on; they are spelled in many ways.
func (x *examination) on(name string) bool {
	v := strings.ToUpper(x.settings[name])
	return v == "ON" || v == "1" || v == "TRUE" || v == "YES"
}

// number is 0 for what is no number, or not there.
func (x *examination) number(name string) int64 {
	n, err := strconv.ParseInt(x.settings[name], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (x *examination) serverVersion(context.Context) (doctor.Diagnosis, error) {
	oldest, kind := oldestMySQL, "MySQL"
	if x.server.mariadb {
		oldest, kind = oldestMariaDB, "MariaDB"
	}
	if older(x.server.version, oldest) {
		return doctor.Diagnose(doctor.Bad, kind+" "+x.server.version, "move to "+oldest+" or newer"), nil
	}
	return doctor.Sound("%s %s", kind, x.server.version), nil
}

func (x *examination) writable(context.Context) (doctor.Diagnosis, error) {
	for _, name := range []string{"innodb_read_only", "super_read_only", "read_only"} {
		if x.on(name) {
			return doctor.Diagnose(doctor.Bad, name+" is on: a replica", "give the URL of the primary, or on one that was promoted: SET GLOBAL "+name+" = OFF"), nil
		}
	}
	return doctor.Sound("a primary"), nil
}

func (x *examination) flushLog(context.Context) (doctor.Diagnosis, error) {
	v := x.settings["innodb_flush_log_at_trx_commit"]
	if method := strings.ToLower(x.settings["innodb_flush_method"]); method == "nosync" || method == "littlesync" {
		return doctor.Diagnose(doctor.Bad, v+", but innodb_flush_method is "+method+": the disk is not asked", "take innodb_flush_method out of the server's file, and restart it"), nil
	}
	lost := ""
	switch v {
	case "0":
		lost = ": up to a second of commits is lost when the server ends without its order, and others have seen them"
	case "2":
		lost = ": up to a second of commits is lost when the machine does, with its power or in a crash"
	case "1", "3": // MariaDB's 3 writes more often
		return doctor.Sound("%s", v), nil
	}
	return doctor.Diagnose(doctor.Bad, v+lost, setGlobal("innodb_flush_log_at_trx_commit", "1")), nil
}

func (x *examination) syncBinlog(context.Context) (doctor.Diagnosis, error) {
	switch v := x.settings["sync_binlog"]; {
	case !x.on("log_bin"):
		return doctor.Sound("there is no binary log"), nil
	case v != "1":
		return doctor.Diagnose(doctor.Bad, v+": commits of which the binary log is not on the disk are rolled back after a power cut", setGlobal("sync_binlog", "1")), nil
	}
	return doctor.Sound("1"), nil
}

func (x *examination) doublewrite(context.Context) (doctor.Diagnosis, error) {
	v := strings.ToUpper(x.settings["innodb_doublewrite"])
	if v == "OFF" || v == "0" || v == "DETECT_ONLY" {
		return doctor.Diagnose(doctor.Bad, v, "innodb_doublewrite = ON below [mysqld] in the server's file, and restart it"), nil
	}
	return doctor.Sound("%s", v), nil
}

func (x *examination) binlogFormat(context.Context) (doctor.Diagnosis, error) {
	v := strings.ToUpper(x.settings["binlog_format"])
	switch {
	case !x.on("log_bin"):
		return doctor.Sound("there is no binary log"), nil
	case v == "STATEMENT":
		return doctor.Diagnose(doctor.Bad, v, setGlobal("binlog_format", "'ROW'")+"; sessions that are open keep theirs"), nil
	}
	return doctor.Sound("%s", v), nil
}

const countReplicas = `SELECT count(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'`

func (x *examination) replicas(ctx context.Context) (doctor.Diagnosis, error) {
	var n int
	if err := x.db.QueryRowContext(ctx, countReplicas).Scan(&n); err != nil {
		return doctor.Diagnosis{}, err
	}
	waits := x.on("rpl_semi_sync_master_enabled") || x.on("rpl_semi_sync_source_enabled")
	waiting, err := x.waitsNow(ctx)
	switch {
	case err != nil:
		return doctor.Diagnosis{}, err
	case n > 0 && !waits:
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("%d replicas, none of them is waited for", n), "switch semi-synchronous replication on: rpl_semi_sync_master_enabled (MariaDB), rpl_semi_sync_source_enabled (MySQL)"), nil
	case waits && n == 0:
		return doctor.Diagnose(doctor.Warn, "commits wait for a replica, and none is seen to follow", "start the replica, or let "+x.url.User+" see it: GRANT PROCESS ON *.* TO "+x.account), nil
	case n == 0:
		return doctor.Sound("none seen: what is committed is on one server's disk"), nil
	case !waiting:
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("%d replicas; one of them was to be waited for, and for longer than allowed none has answered: commits don't wait any more", n),
				"mend the replica; a higher rpl_semi_sync_master_timeout (MariaDB), rpl_semi_sync_source_timeout (MySQL) lets commits wait for longer"),
			nil
	}
	return doctor.Sound("%d, and one of them is waited for", n), nil
}

const semiSyncStatus = `SHOW GLOBAL STATUS WHERE Variable_name IN ('Rpl_semi_sync_master_status', 'Rpl_semi_sync_source_status') AND Value = 'ON'`

// waitsNow reports whether commits wait for a replica at this moment.
func (x *examination) waitsNow(ctx context.Context) (waits bool, err error) {
	var name, value string
	err = each(ctx, x.db, []any{&name, &value}, func() { waits = true }, semiSyncStatus)
	return waits, err
}

func (x *examination) cluster(context.Context) (doctor.Diagnosis, error) {
	fix := "let all producers, relays and consumers of this database write through one node (a proxy that sends writes to one); conflicts at a commit (1213) are repeated"
	switch {
	case x.on("wsrep_on"):
		return doctor.Diagnose(doctor.Warn, "a node of a Galera cluster", fix), nil
	case x.settings["group_replication_group_name"] != "" && !x.on("group_replication_single_primary_mode"):
		return doctor.Diagnose(doctor.Warn, "group replication with several primaries", "SELECT group_replication_switch_to_single_primary_mode(); or "+fix), nil
	case x.settings["group_replication_group_name"] != "":
		return doctor.Sound("group replication with one primary"), nil
	}
	return doctor.Sound("none: one server writes"), nil
}

func (x *examination) autoincLock(context.Context) (doctor.Diagnosis, error) {
	switch v := x.settings["innodb_autoinc_lock_mode"]; {
	case v == "0":
		return doctor.Diagnose(doctor.Warn, "0: producers queue for each other's INSERT", "innodb_autoinc_lock_mode = 2 below [mysqld] in the server's file, with binlog_format = ROW, and restart it"), nil
	case v == "2" && x.on("log_bin") && strings.EqualFold(x.settings["binlog_format"], "STATEMENT"):
		return doctor.Diagnose(doctor.Bad, "2 with statements in the binary log: a replica gives other ids", setGlobal("binlog_format", "'ROW'")), nil
	default:
		return doctor.Sound("%s", v), nil
	}
}

func (x *examination) increment(context.Context) (doctor.Diagnosis, error) {
	n := x.number("auto_increment_increment")
	if n <= 1 || x.on("wsrep_on") { // of a cluster its own check tells
		return doctor.Sound("%d", n), nil
	}
	return doctor.Diagnose(doctor.Warn, fmt.Sprintf("%d: of as many ids one is used", n), setGlobal("auto_increment_increment", "1")+"; where two servers are written to, write to one"), nil
}
