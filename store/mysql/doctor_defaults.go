package mysql

import (
	"context"
	"fmt"
	"strings"

	"github.com/settlemq/settle/doctor"
)

// sessionDefaults are settings that sessions of the business and of other
// programs begin with; those of Settle's own set what they need.
func (x *examination) sessionDefaults() []check {
	return []check{
		{"sql_mode", "where the server cuts what doesn't fit, instead of refusing it, two keys become one and a payload ends in the middle", x.sqlMode},
		{"isolation", "Settle's own sessions are READ COMMITTED; what the others are decides what they lock and see", x.isolation},
		{"max_allowed_packet", "an event that doesn't fit into a packet is refused, with the fact of its transaction", x.maxPacket},
		{"wait_timeout", "the server ends connections that a pool still holds for good: the next who gets one from it gets an error", x.waitTimeout},
		{"group_concat", "a payload that SQL puts together with GROUP_CONCAT or JSON_ARRAYAGG ends there, without an error", x.groupConcat},
		{"time_zone", "a DATETIME has no zone: what another program fills with NOW() is taken for UTC, and not_before comes hours early or late", x.timeZone},
	}
}

func (x *examination) sqlMode(context.Context) (doctor.Diagnosis, error) {
	mode := x.settings["sql_mode"]
	var p problems
	if !strings.Contains(mode, "STRICT_ALL_TABLES") && !strings.Contains(mode, "STRICT_TRANS_TABLES") {
		p.add(fmt.Sprintf("%q is not strict", mode), setGlobal("sql_mode", "concat(@@global.sql_mode, ',STRICT_TRANS_TABLES')"))
	}
	if strings.Contains(mode, "PAD_CHAR_TO_FULL_LENGTH") {
		p.add("PAD_CHAR_TO_FULL_LENGTH returns keys with spaces", setGlobal("sql_mode", "replace(@@global.sql_mode, 'PAD_CHAR_TO_FULL_LENGTH', '')"))
	}
	return p.diagnosis(doctor.Warn, "%s", mode), nil
}

func (x *examination) isolation(context.Context) (doctor.Diagnosis, error) {
	name, v := "transaction_isolation", x.settings["transaction_isolation"]
	if v == "" {
		name, v = "tx_isolation", x.settings["tx_isolation"]
	}
	switch v {
	case "SERIALIZABLE":
		return doctor.Diagnose(doctor.Warn, v+": each plain read locks what it reads", setGlobal(name, "'READ-COMMITTED'")), nil
	case "READ-UNCOMMITTED":
		return doctor.Diagnose(doctor.Warn, v+": sessions see what may be rolled back", setGlobal(name, "'READ-COMMITTED'")), nil
	}
	return doctor.Sound("%s", v), nil
}

// Of a packet: an event of a megabyte, which is what brokers take, may be twice
// as long as text, and one statement carries several.
const (
	smallPacket = 16 << 20
	tinyPacket  = 4 << 20
)

func (x *examination) maxPacket(context.Context) (doctor.Diagnosis, error) {
	n := x.number("max_allowed_packet")
	found, fix := fmt.Sprintf("%d bytes", n), setGlobal("max_allowed_packet", "67108864")+"; connections that are open keep theirs"
	switch {
	case n < tinyPacket:
		return doctor.Diagnose(doctor.Bad, found, fix), nil
	case n < smallPacket:
		return doctor.Diagnose(doctor.Warn, found, fix), nil
	}
	return doctor.Sound("%s", found), nil
}

// poolIdle is for how many seconds pools usually keep a connection. Settle's
// go by what the server says when they are opened.
const poolIdle = 60

func (x *examination) waitTimeout(context.Context) (doctor.Diagnosis, error) {
	n := x.number("wait_timeout")
	if n <= poolIdle {
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("%d s, and pools usually keep a connection for %d s or more", n, poolIdle), setGlobal("wait_timeout", "600")), nil
	}
	return doctor.Sound("%d s", n), nil
}

// shortGroup is less than a payload may have.
const shortGroup = 1 << 20

func (x *examination) groupConcat(context.Context) (doctor.Diagnosis, error) {
	n := x.number("group_concat_max_len")
	if n < shortGroup {
		return doctor.Diagnose(doctor.Warn, fmt.Sprintf("after %d bytes", n), setGlobal("group_concat_max_len", "1048576")), nil
	}
	return doctor.Sound("after %d bytes", n), nil
}

const zoneNow = `SELECT TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(), CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', @@global.time_zone))`

func (x *examination) timeZone(ctx context.Context) (doctor.Diagnosis, error) {
	zone := x.settings["time_zone"]
	said := zone
	if zone == "SYSTEM" {
		said += " (" + x.settings["system_time_zone"] + ")"
	}
	var minutes intColumn
	if err := x.db.QueryRowContext(ctx, zoneNow).Scan(&minutes); err != nil {
		return doctor.Diagnosis{}, err
	}
	if minutes.set && minutes.int64 == 0 {
		return doctor.Sound("%s, which is UTC now", said), nil
	}
	return doctor.Diagnose(doctor.Warn, said+" is not UTC", setGlobal("time_zone", "'+00:00'")+"; or UTC_TIMESTAMP(6) instead of NOW() wherever another program fills a time of Settle's tables"), nil
}
