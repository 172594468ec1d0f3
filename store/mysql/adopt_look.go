package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/settlemq/settle/store/adopt"
	"github.com/settlemq/settle/store/migrate"
)

// adoptLook is what is found of a table on this server.
type adoptLook struct {
	adopt.Look
	is server
	db *sql.DB
	// own is Settle's own database, there whether it exists, service that of the
	// service; empty where only the name of the table tells.
	own, service string
	there        bool
	// outbox: it has an outbox of its own.
	outbox           bool
	adoption, before *adoption
	// shared is the consume log that is there, nil for none; alone is true where
	// there is no outbox beside it.
	shared *sharedLog
	alone  bool
}

func newLook(cfg migrate.AdoptConfig, is server) *adoptLook {
	l := &adoptLook{is: is, adoption: &adoption{is: is, Charsets: map[string]string{}, Collations: map[string]string{}}}
	l.Config, l.adoption.Columns = cfg, map[string]string{}
	l.Outbox = &l.adoption.Outbox
	return l
}

func (a *Adopt) look(ctx context.Context, l *adoptLook) error {
	if err := a.present(ctx, l); err != nil || l.Refused() {
		return err
	}
	if err := a.consumeLog(ctx, l); err != nil || l.alone || l.Refused() {
		return err
	}
	if l.outbox {
		l.Refuse("database %s has an outbox of its own; name another for Settle's tables in the URL", plain(l.own))
		return nil
	}
	for _, step := range []func(context.Context, *adoptLook) error{
		a.find, a.columns, a.zone, a.payload, a.topics, a.statuses, a.ids, a.count, a.others,
	} {
		if err := step(ctx, l); err != nil || l.Refused() {
			return err
		}
	}
	l.Changes()
	return nil
}

const hasOutbox = `SELECT count(*) > 0 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 't_outbox_event' AND table_type = 'BASE TABLE'`

// present reads what was decided before.
func (a *Adopt) present(ctx context.Context, l *adoptLook) error {
	if !l.there {
		return nil
	}
	var own, others, adopted bool
	if err := l.db.QueryRowContext(ctx, ownTables, l.own).Scan(&own); err != nil {
		return err
	}
	if !own {
		err := l.db.QueryRowContext(ctx, otherTables, l.own).Scan(&others)
		if others {
			l.Refuse("database %s, where Settle's own tables would be, has tables of others; name one of Settle's own in the URL, and the table with its database: --table %s", plain(l.own), cmp.Or(a.cfg.Table, plain(l.service)+".t_outbox_event"))
		}
		return err
	}
	if err := l.db.QueryRowContext(ctx, hasOutbox).Scan(&l.outbox); err != nil {
		return err
	}
	if l.outbox {
		return nil
	}
	err := l.db.QueryRowContext(ctx, hasAdoption).Scan(&adopted)
	if err != nil || !adopted {
		return err
	}
	l.before, l.Done, err = l.is.readAdoption(ctx, l.db)
	if l.Before = l.before.decided(); err == nil {
		l.Plan.Adopted = l.Done && !a.cfg.Again
	}
	return err
}

const findTable = `SELECT table_schema, table_name, table_type, coalesce(engine, '') FROM information_schema.tables WHERE table_schema = ? AND table_name = ?`

func (a *Adopt) find(ctx context.Context, l *adoptLook) error {
	name := a.cfg.Table
	switch {
	case name == "" && l.before != nil:
		name = l.before.table()
	case name == "":
		name = quoted(l.service) + ".t_outbox_event"
	}
	l.Plan.Table = name
	parts, ok := parseName(name)
	if ok && len(parts) == 1 {
		parts = []string{l.service, parts[0]}
	}
	if !ok || parts[0] == "" {
		l.Refuse("%s is not a table's name with its database, as SQL writes it; quote what is not plain: --table 'sales.`Order Events`'", cmp.Or(a.cfg.Table, "t_outbox_event"))
		return nil
	}
	d := l.adoption
	d.Schema, d.Name = parts[0], parts[1]
	l.Plan.Table = d.plainName()
	var kind, engine string
	err := l.db.QueryRowContext(ctx, findTable, d.Schema, d.Name).Scan(&d.Schema, &d.Name, &kind, &engine)
	if errors.Is(err, sql.ErrNoRows) {
		l.Refuse("there is no table %s, or the account has no right to it; name it with its database: --table sales.t_outbox_event, or GRANT SELECT ON %[1]s TO …", l.Plan.Table)
		return nil
	}
	if err != nil {
		return err
	}
	l.Plan.Table = d.plainName()
	l.Decide()
	switch {
	case kind != "BASE TABLE":
		l.Refuse("%s is not a table", l.Plan.Table)
	case engine != "InnoDB":
		l.Refuse("%s is kept by %s, whose rows are stored whether or not a transaction commits, so that events would be sent of what never happened; ALTER TABLE %[1]s ENGINE = InnoDB", l.Plan.Table, engine)
	case l.Done && l.before.plainName() != l.Plan.Table:
		l.Refuse("database %s has adopted %s; a second table needs a database of its own in the URL", plain(l.own), l.before.plainName())
	}
	return nil
}

const tableColumns = `SELECT column_name, column_type, coalesce(character_set_name, ''), coalesce(collation_name, ''), extra FROM information_schema.columns WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position`

func (a *Adopt) columns(ctx context.Context, l *adoptLook) error {
	d := l.adoption
	json, err := l.is.jsonColumns(ctx, l.db, l.adoption.table())
	if err != nil {
		return err
	}
	var name, typed, charset, collation, extra string
	err = each(ctx, l.db, []any{&name, &typed, &charset, &collation, &extra}, func() {
		name = strings.ToLower(name)
		if slices.Contains(json, name) {
			typed = "json"
		}
		l.Column(name, typed)
		if d.Has(name) {
			d.Charsets[name], d.Collations[name] = charset, collation
		}
		if strings.Contains(strings.ToLower(extra), "on update") && name != "updated_at" {
			d.Kept = append(d.Kept, name)
		}
	}, tableColumns, d.Schema, d.Name)
	if err != nil {
		return err
	}
	d.ValidJSON = d.Columns["payload"] == "json"
	if l.Look.Columns(d.readable); l.Refused() {
		return nil
	}
	return a.rights(ctx, l)
}

// checkedJSON finds columns that MariaDB declares as JSON: text with a check.
var checkedJSON = regexp.MustCompile("(?i)json_valid\\(`([^`]+)`\\)")

const showTable = `SHOW CREATE TABLE `

func (s server) jsonColumns(ctx context.Context, db querier, table string) (names []string, err error) {
	if !s.mariadb {
		return nil, nil
	}
	var name, text string
	err = db.QueryRowContext(ctx, showTable+table).Scan(&name, &text)
	if hasCode(err, codeNoRight) {
		return nil, nil // said below
	}
	for _, m := range checkedJSON.FindAllStringSubmatch(text, -1) {
		names = append(names, strings.ToLower(m[1]))
	}
	return names, err
}

// readable reports whether a column can be read as what it is to be.
func (a *adoption) readable(name, typed string) bool {
	base := baseType(typed)
	text := slices.Contains([]string{"varchar", "char", "text", "tinytext", "mediumtext", "longtext"}, base)
	switch name {
	case "id":
		return slices.Contains([]string{"bigint", "int", "mediumint"}, base)
	case "payload":
		return text || base == "json" || strings.HasSuffix(base, "blob") || base == "varbinary"
	case "headers":
		return text || base == "json"
	case "created_at", "updated_at", "next_retry_time":
		return base == "datetime" || base == "timestamp"
	case "retry_count":
		return numeric(typed)
	case "last_error":
		return text
	case "status":
		return text || base == "enum" || numeric(typed)
	}
	return text || base == "uuid" || base == "enum" || numeric(typed)
}

const (
	mayRead = `SELECT %s FROM %s LIMIT 0`

	// The server asks for the rights before it explains, and changes nothing.
	mayWrite = `EXPLAIN UPDATE %s SET %s WHERE id = 0`
)

// rights looks whether the account may do with the table what is to be done.
func (a *Adopt) rights(ctx context.Context, l *adoptLook) error {
	missing, err := l.adoption.lacking(ctx, l.db)
	if slices.Contains(missing, "SELECT") {
		l.Refuse("the account may not read %s: GRANT SELECT ON %[1]s TO …", l.Plan.Table)
	} else if len(missing) > 0 {
		l.Refuse("the account may not update %s: GRANT UPDATE ON %[1]s TO …, or --project=false, which leaves the status as it is", l.Plan.Table)
	}
	return err
}

// lacking returns the rights on the table that the account needs and has not.
func (a *adoption) lacking(ctx context.Context, db querier) (missing []string, err error) {
	var read, write []string
	for _, name := range append(adopt.Essentials(), adopt.Optionals()...) {
		if a.Has(name) {
			read = append(read, name)
		}
		if a.Has(name) && slices.Contains(writtenColumns(), name) {
			write = append(write, name+" = "+name)
		}
	}
	for _, name := range a.Kept {
		write = append(write, quoted(name)+" = "+quoted(name))
	}
	err = each(ctx, db, slices.Repeat([]any{new(any)}, len(read)), func() {}, fmt.Sprintf(mayRead, strings.Join(read, ", "), a.table()))
	switch {
	case lacksRight(err):
		missing = append(missing, "SELECT")
	case err != nil:
		return nil, err
	}
	if !a.Project {
		return missing, nil
	}
	_, err = db.ExecContext(ctx, fmt.Sprintf(mayWrite, a.table(), strings.Join(write, ", ")))
	if lacksRight(err) {
		return append(missing, "UPDATE"), nil
	}
	return missing, err
}

// writtenColumns are all that is ever written into an adopted table.
func writtenColumns() []string {
	return []string{"status", "retry_count", "next_retry_time", "last_error", "updated_at"}
}

func lacksRight(err error) bool { return hasCode(err, codeNoRight) || hasCode(err, codeNoColumnRight) }

func (a *Adopt) topics(_ context.Context, l *adoptLook) error {
	l.Topics()
	return nil
}

const (
	serverZone = `SELECT @@global.time_zone, @@system_time_zone`
	knowsZone  = `SELECT CONVERT_TZ('2024-02-03 04:05:06', ?, '+00:00') IS NOT NULL`

	// newestIn is how far the newest row's time is ahead of the clock.
	newestIn = `SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), %s) FROM %s e ORDER BY e.id DESC LIMIT 1`
)

// zone decides what times of a DATETIME are of: those of a TIMESTAMP are the
// server's business.
func (a *Adopt) zone(ctx context.Context, l *adoptLook) error {
	d := l.adoption
	zone, err := a.zoneOf(ctx, l, l.Zone())
	if err != nil || l.Refused() {
		return err
	}
	d.Zone = zone
	l.Plan.Zone = zone
	if !zoneless(d.Columns["created_at"]) {
		return nil
	}
	var ahead sql.NullInt64
	err = l.db.QueryRowContext(ctx, fmt.Sprintf(newestIn, d.zoned("created_at"), d.table())).Scan(&ahead)
	if errors.Is(err, sql.ErrNoRows) {
		l.Unproven()
		return nil
	}
	l.Newest(time.Duration(ahead.Int64) * time.Microsecond)
	return err
}

// zoneOf returns a zone as the server takes it; that of the server if none is
// wanted. A server whose tables of zones are empty knows offsets only, which are
// as good for a zone that has had one and the same for years.
func (a *Adopt) zoneOf(ctx context.Context, l *adoptLook, want string) (string, error) {
	zone := want
	var system string
	if zone == "" {
		if err := l.db.QueryRowContext(ctx, serverZone).Scan(&zone, &system); err != nil {
			return "", err
		}
		if zone == "SYSTEM" && system == "UTC" {
			zone = inUTC
		}
	}
	if slices.Contains([]string{"UTC", "GMT", "Z", "Etc/UTC"}, zone) {
		return inUTC, nil
	}
	var known bool
	if err := l.db.QueryRowContext(ctx, knowsZone, zone).Scan(&known); err != nil || known {
		return zone, err
	}
	if offset, fixed := adopt.FixedOffset(zone); fixed {
		return offset, nil
	}
	l.Refuse("the server knows no time zone %q: give an offset, for instance --zone +08:00, or fill its tables of zones: mariadb-tzinfo-to-sql (mysql_tzinfo_to_sql) /usr/share/zoneinfo | mariadb mysql", zone)
	return "", nil
}

const newestPayloads = `SELECT %s, %s FROM %s e ORDER BY e.id DESC LIMIT 20`

func (a *Adopt) payload(ctx context.Context, l *adoptLook) error {
	d := l.adoption
	var p adopt.Payloads
	var id stringColumn
	var payload []byte
	err := each(ctx, l.db, []any{&id, &payload}, func() { p.Add(id.string, payload) },
		fmt.Sprintf(newestPayloads, d.unicode("event_id"), d.unicode("payload"), d.table()))
	if err != nil {
		return err
	}
	l.Payload(p)
	if baseType(d.Columns["payload"]) == "json" && !l.is.mariadb {
		l.Note("json: consumers get the payload as the server writes it (keys sorted, spaces set), as they do now")
	}
	return nil
}
