package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/settlemq/settle/doctor"
)

func (x *examination) serverChecks() []check {
	return []check{
		{"server_version", "older servers lack what the statements use", x.serverVersion},
		{"writable", "the relay and consumers write with every step", x.writable},
		{"synchronous_commit", "a fact that was answered as committed, and its event, must outlive a crash of the server", x.synchronousCommit},
		{"fsync", "without it a power cut loses commits and may corrupt the database", x.on("fsync")},
		{"full_page_writes", "without it a power cut in the middle of a page may corrupt tables beyond repair", x.on("full_page_writes")},
		{"unlogged_tables", "the rows of an unlogged table are gone after a crash of the server, and no standby ever has them", x.unloggedTables},
		{"synchronous_standby", "a failover to a standby that is behind loses committed events", x.standbys},
		{"wal_level", "without enough of it there can be neither standby nor archive: the disk is the only copy", x.walLevel},
		{"isolation", "Settle's transactions read what others have committed meanwhile; at other levels they fail and are repeated, and a standby may judge by what has changed", x.isolation},
		{"time_zone", "a time without zone means what the session's zone says", x.timeZone},
		{"encoding", "event ids, keys and payloads are UTF-8", x.encoding},
		{"pooler", "Settle needs transactions and no session state", x.pooler},
		{"clock_skew", "the database's clock decides leases; times of events and retries come from this machine", x.clockSkew},
	}
}

func (x *examination) serverVersion(context.Context) (doctor.Diagnosis, error) {
	if x.version < oldest {
		return doctor.Diagnose(doctor.Bad, fmt.Sprintf("PostgreSQL %d", x.version/10000), fmt.Sprintf("move to PostgreSQL %d or newer", oldest/10000)), nil
	}
	return doctor.Sound("PostgreSQL %d", x.version/10000), nil
}

func (x *examination) writable(context.Context) (doctor.Diagnosis, error) {
	s := x.settings["default_transaction_read_only"]
	switch {
	case x.standby:
		return doctor.Diagnose(doctor.Bad, "the server is in recovery: a read-only replica", "give the URL of the primary, or host=a,b with target_session_attrs=read-write"), nil
	case s.value == "on":
		return doctor.Diagnose(doctor.Bad, "transactions are read-only", x.reset("default_transaction_read_only", "off")), nil
	}
	return doctor.Sound("a primary"), nil
}

// reset is the SQL that ends a bad value where it comes from.
func (x *examination) reset(name, want string) string {
	switch source := x.settings[name].source; source {
	case "user":
		return fmt.Sprintf("ALTER ROLE %s RESET %s", ident(x.role), name)
	case "database user":
		return fmt.Sprintf("ALTER ROLE %s IN DATABASE %s RESET %s", ident(x.role), ident(x.database), name)
	case "database":
		return fmt.Sprintf("ALTER DATABASE %s RESET %s", ident(x.database), name)
	case "client":
		return fmt.Sprintf("take %s out of the URL's options", name)
	}
	return fmt.Sprintf("ALTER SYSTEM SET %s = %s; SELECT pg_reload_conf()", name, literal(want))
}

func (x *examination) on(name string) func(context.Context) (doctor.Diagnosis, error) {
	return func(context.Context) (doctor.Diagnosis, error) {
		if s := x.settings[name]; s.value != "on" {
			return doctor.Diagnose(doctor.Bad, s.value, x.reset(name, "on")), nil
		}
		return doctor.Sound("on"), nil
	}
}

// Of other roles, those that may be producers of this database.
const careless = `SELECT coalesce(r.rolname::text, ''), coalesce(d.datname::text, ''), split_part(c.setting, '=', 2)
FROM pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) c(setting)
LEFT JOIN pg_roles r ON r.oid = s.setrole LEFT JOIN pg_database d ON d.oid = s.setdatabase
WHERE c.setting LIKE 'synchronous\_commit=%' AND (d.datname IS NULL OR d.datname = current_database())
AND (r.rolname IS NULL OR has_schema_privilege(r.oid, current_schema(), 'USAGE')) AND r.rolname IS DISTINCT FROM session_user ORDER BY 1, 2`

func (x *examination) synchronousCommit(ctx context.Context) (doctor.Diagnosis, error) {
	s := x.settings["synchronous_commit"]
	replicated := x.settings["synchronous_standby_names"].value != ""
	switch {
	case s.value == "off":
		return doctor.Diagnose(doctor.Bad, "off", x.reset("synchronous_commit", "on")), nil
	case s.value == "local" && replicated:
		return doctor.Diagnose(doctor.Warn, "local: commits do not wait for the synchronous standby", x.reset("synchronous_commit", "on")), nil
	case x.schema == "":
		return doctor.Sound("%s", s.value), nil
	}
	r := doctor.Sound("%s", s.value)
	var role, database, value string
	var who, fixes []string
	err := x.each(ctx, []any{&role, &database, &value}, func() {
		if role == "" || value != "off" { // a database's is what this session has, unless its role says otherwise
			return
		}
		at := ""
		if database != "" {
			at = " IN DATABASE " + ident(database)
		}
		who, fixes = append(who, role), append(fixes, fmt.Sprintf("ALTER ROLE %s%s RESET synchronous_commit", ident(role), at))
	}, careless)
	if len(who) > 0 {
		r = doctor.Diagnose(doctor.Warn, s.value+", but off for "+strings.Join(who, ", "), strings.Join(fixes, "; "))
	}
	return r, err
}

const unlogged = `SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relpersistence = 'u' AND (oid = to_regclass('t_outbox_event')
 OR relnamespace = to_regnamespace(quote_ident(current_schema())) AND (relname LIKE 't\_%' OR relname LIKE 'settle\_%')) ORDER BY 1`

func (x *examination) unloggedTables(ctx context.Context) (doctor.Diagnosis, error) {
	var p problems
	var name string
	err := x.each(ctx, []any{&name}, func() { p.add(name, "ALTER TABLE "+name+" SET LOGGED") }, x.of(unlogged))
	return p.diagnosis(doctor.Bad, "none"), err
}

const countStandbys = `SELECT count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')), count(*) FILTER (WHERE state IS NULL) FROM pg_stat_replication`

func (x *examination) standbys(ctx context.Context) (doctor.Diagnosis, error) {
	names := x.settings["synchronous_standby_names"].value
	var all, synchronous, hidden int
	if err := x.conn.QueryRow(ctx, countStandbys).Scan(&all, &synchronous, &hidden); err != nil {
		return doctor.Diagnosis{}, err
	}
	switch {
	case names == "" && all > 0:
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("%d followers, none of them is waited for", all), "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (…)'; SELECT pg_reload_conf()"), nil
	case names == "":
		return doctor.Sound("none: what is committed is on one server's disk"), nil
	case hidden > 0:
		return doctor.Sound("commits wait for %s; whether it follows is hidden from %s: GRANT pg_monitor TO %s", names, x.role, ident(x.role)), nil
	case synchronous == 0:
		return doctor.Diagnose(doctor.Bad, "commits wait for "+names+", and it does not follow: they hang", "start the standby, or ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf()"), nil
	}
	return doctor.Sound("%d of %d followers are waited for", synchronous, all), nil
}

func (x *examination) walLevel(context.Context) (doctor.Diagnosis, error) {
	if s := x.settings["wal_level"]; s.value == "minimal" {
		return doctor.Diagnose(doctor.Warn, s.value, "ALTER SYSTEM SET wal_level = 'replica', and restart the server"), nil
	}
	return doctor.Sound("%s", x.settings["wal_level"].value), nil
}

func (x *examination) isolation(context.Context) (doctor.Diagnosis, error) {
	s := x.settings["default_transaction_isolation"]
	if s.value != "read committed" {
		return doctor.Diagnose(doctor.Warn, s.value, x.reset("default_transaction_isolation", "read committed")), nil
	}
	return doctor.Sound("%s", s.value), nil
}

func (x *examination) timeZone(context.Context) (doctor.Diagnosis, error) {
	zone := x.settings["TimeZone"].value
	if x.outbox == nil || len(x.outbox.zoneless) == 0 {
		return doctor.Sound("%s; every column of time has its zone", zone), nil
	}
	if x.adopted != nil {
		return doctor.Sound("%s of t_outbox_event have none and are read as of %s", strings.Join(x.outbox.zoneless, ", "), x.adopted.Zone), nil
	}
	return doctor.Diagnose(doctor.Warn, fmt.Sprintf("the session's zone is %s, and %s of t_outbox_event have none", zone, strings.Join(x.outbox.zoneless, ", ")),
			"say in the config which zone the producers write; for instance, a JVM in Shanghai writes times 8 h ahead of UTC"),
		nil
}

func (x *examination) encoding(context.Context) (doctor.Diagnosis, error) {
	if s := x.settings["server_encoding"]; s.value != "UTF8" {
		return doctor.Diagnose(doctor.Bad, s.value, fmt.Sprintf("CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0, and move %s into it", ident(x.database))), nil
	}
	return doctor.Sound("UTF8"), nil
}
