package mysql_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
)

// variant is a classic table as some service has it.
type variant struct {
	id, payload, headers, times, status, more string
	cfg                                       migrate.AdoptConfig
	// stored is how event g's payload is written into the column.
	stored string
	// arrives is what the record of event 7 is to be; empty: what is stored.
	arrives string
	// waits and sent are the words of the status, if they are not the usual ones.
	waits, sent string
	// key is the type of the column of keys, o-1 the key unless it can't be.
	key string
}

func (v variant) table() string {
	columns := []string{"id " + cmp.Or(v.id, "BIGINT AUTO_INCREMENT") + " PRIMARY KEY", "event_id VARCHAR(64) NOT NULL UNIQUE", "aggregate_id " + cmp.Or(v.key, "VARCHAR(64)"), "event_type VARCHAR(64) NOT NULL",
		"payload " + cmp.Or(v.payload, "JSON"), "status " + cmp.Or(v.status, "VARCHAR(16)") + " NOT NULL", "created_at " + cmp.Or(v.times, "DATETIME") + " NOT NULL DEFAULT CURRENT_TIMESTAMP" + precision(v.times)}
	if v.headers != "" {
		columns = append(columns, "headers "+v.headers)
	}
	return "CREATE TABLE t_outbox_event (" + strings.Join(append(columns, strings.Split(v.more, "|")...), ", ") + ", KEY i_status (status))"
}

// precision is what a default of a column must have, too.
func precision(times string) string {
	if i := strings.IndexByte(times, '('); i > 0 {
		return times[i:]
	}
	return ""
}

const wholeText = `CONCAT('{"eventId":"e-', g, '",  "eventType":"order.created","aggregateId":"o-1","version":1,"payload":{"n":1.10,"b":"é<>"},"x":1E+3}')`

func TestEachKindOfClassicTableIsAdopted(t *testing.T) {
	const full = "aggregate_type VARCHAR(64)| retry_count INT NOT NULL DEFAULT 0| next_retry_time DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP| last_error VARCHAR(40)| updated_at DATETIME"
	whole := `{"eventId":"e-7",  "eventType":"order.created","aggregateId":"o-1","version":1,"payload":{"n":1.10,"b":"é<>"},"x":1E+3}`
	for name, v := range map[string]variant{
		"json":       {more: full, headers: "JSON", stored: wholeText},
		"text":       {more: full, headers: "TEXT", payload: "TEXT", stored: wholeText, arrives: whole, times: "TIMESTAMP", id: "BIGINT UNSIGNED AUTO_INCREMENT"},
		"longtext":   {more: full, payload: "LONGTEXT", stored: wholeText, arrives: whole, times: "DATETIME(3)", id: "INT AUTO_INCREMENT"},
		"varchar":    {more: full, payload: "VARCHAR(2000)", stored: wholeText, arrives: whole, times: "DATETIME(6)"},
		"blob":       {more: "retry_count TINYINT NOT NULL DEFAULT 0", payload: "BLOB", stored: wholeText, arrives: whole, times: "TIMESTAMP(6)"},
		"latin1":     {more: full, payload: "TEXT CHARACTER SET latin1", key: "VARCHAR(64) CHARACTER SET latin1", stored: wholeText, arrives: whole},
		"extra":      {more: full + "| tenant VARCHAR(36) NOT NULL DEFAULT 'x'| version BIGINT| shard INT AS (1) STORED| touched TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", stored: wholeText},
		"fewest":     {more: "note TEXT", stored: wholeText},
		"enum":       {more: full, status: "ENUM('SENT','SENDING','PENDING')", stored: wholeText},
		"number":     {more: full, status: "TINYINT", stored: wholeText, waits: "0", sent: "1", cfg: migrate.AdoptConfig{Status: map[string][]string{migrate.StatusPending: {"0"}, migrate.StatusSent: {"1"}}}},
		"key":        {more: full, key: "BIGINT", stored: strings.Replace(wholeText, `"o-1"`, `"1"`, 1)},
		"body":       {more: full, stored: `'{"n": 1.10}'`, cfg: migrate.AdoptConfig{Topic: "t", TopicOf: map[string]string{"order.created": settle.DefaultTopic}}},
		"no index":   {more: full, stored: wholeText},
		"uca":        {more: full + "| CHECK (status <> '')", stored: wholeText, status: "VARCHAR(16) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci"},
		"partitions": {more: full, stored: wholeText},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tables := v.table()
			switch name {
			case "no index":
				tables = strings.Replace(tables, ", KEY i_status (status)", "", 1)
			case "partitions":
				tables = strings.Replace(tables, " NOT NULL UNIQUE", " NOT NULL", 1) + " PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (6), PARTITION b VALUES LESS THAN MAXVALUE)"
			}
			waits, sent, key := cmp.Or(v.waits, "PENDING"), cmp.Or(v.sent, "SENT"), "o-1"
			if v.key == "BIGINT" {
				key = "1"
			}
			c := newClassic(t, tables)
			insert := func(first, last int) {
				c.exec(`INSERT INTO t_outbox_event (event_id, aggregate_id, event_type, payload, status) SELECT CONCAT('e-', g), ?, 'order.created', `+v.stored+`, IF(g <= 3, ?, ?) FROM `+numbersFrom, key, sent, waits, first, last)
			}
			insert(1, 7)
			if name == "json" || name == "text" {
				c.exec(`UPDATE t_outbox_event SET headers = '{"source": "order-service", "n": 7, "deep": {"a": null}, "none": null}'`)
			}
			touched := c.touched(name)
			p := c.adopt(v.cfg)
			if p.Send != 4 || p.Leave != 3 || (p.Payload == migrate.PayloadBody) != (name == "body") {
				t.Errorf("the plan is %+v", p)
			}
			r := c.relay(newMemory(t), relay.Config{Name: "relay"})
			r.sends(4)
			insert(8, 9)
			log := r.sends(6)
			c.becomes(sent + " 9")
			for i, m := range log {
				if want := fmt.Sprint("e-", i+4); m.DecodeErr != nil || m.Event.ID != want || m.Key != key || m.Event.AppendedAt.IsZero() == (name == "body") {
					t.Errorf("record %d is %s with key %q (%v), want %s", i, m.Event.ID, m.Key, m.DecodeErr, want)
				}
			}
			if got := string(log[3].Raw); v.arrives != "" && got != v.arrives {
				t.Errorf("the envelope is\n%s, want\n%s", got, v.arrives)
			}
			if name == "body" && string(log[3].Event.Payload) != `{"n": 1.10}` && string(log[3].Event.Payload) != `{"n": 1.1}` { // JSON of MySQL writes numbers its own way
				t.Errorf("the body is %s", log[3].Event.Payload)
			}
			if h := log[0].Headers; v.headers != "" && (h[settle.HeaderProducer] != "order-service" || h["n"] != "7" || h["deep"] != `{"a":null}` && h["deep"] != `{"a": null}` || len(h["none"]) > 0) {
				t.Errorf("the headers are %v", h)
			}
			if now := c.touched(name); now != touched {
				t.Errorf("a column of the owner's was set from %s to %s", touched, now)
			}
		})
	}
}

// touched is a column that the server sets when a row changes.
func (c *classic) touched(kind string) (at string) {
	if kind == "extra" {
		c.exec(`UPDATE t_outbox_event SET touched = '2026-01-02 03:04:05' WHERE id = 5`)
		if err := c.db.QueryRowContext(context.Background(), `SELECT touched FROM t_outbox_event WHERE id = 5`).Scan(&at); err != nil {
			c.t.Fatal(err)
		}
	}
	return at
}

func TestWhatCanNotBeAdoptedIsSaidInOneSentence(t *testing.T) {
	for name, c := range map[string]struct {
		change, says string
		cfg          migrate.AdoptConfig
	}{
		"missing column":  {"ALTER TABLE t_outbox_event DROP COLUMN payload", "has no column payload", migrate.AdoptConfig{}},
		"wrong type":      {"ALTER TABLE t_outbox_event MODIFY created_at TEXT", "column created_at of", migrate.AdoptConfig{}},
		"no table":        {"SELECT 1", "there is no table", migrate.AdoptConfig{Table: "t_outbox_events"}},
		"no name":         {"SELECT 1", "sales.`Order Events`", migrate.AdoptConfig{Table: "Order Events"}},
		"unknown zone":    {"SELECT 1", `no time zone "Asia/Shangai"`, migrate.AdoptConfig{Zone: "Asia/Shangai"}},
		"another zone":    {"UPDATE t_outbox_event SET created_at = UTC_TIMESTAMP + INTERVAL 8 HOUR", "7h59m|8h0m0s ahead of the clock", migrate.AdoptConfig{Zone: "UTC"}},
		"unknown status":  {"UPDATE t_outbox_event SET status = 'FAILED' WHERE id = 1", `status "FAILED" of 1 rows has no meaning`, migrate.AdoptConfig{}},
		"mixed payloads":  {`UPDATE t_outbox_event SET payload = '{}' WHERE id = 1`, "say what they are: --payload", migrate.AdoptConfig{}},
		"a view":          {"ALTER TABLE t_outbox_event RENAME TO t; CREATE VIEW t_outbox_event AS SELECT * FROM t", "is not a table", migrate.AdoptConfig{}},
		"no primary key":  {"ALTER TABLE t_outbox_event MODIFY id BIGINT NOT NULL, DROP PRIMARY KEY", "does not begin with its id", migrate.AdoptConfig{}},
		"another key":     {"ALTER TABLE t_outbox_event MODIFY id BIGINT NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (aggregate_id, id)", "does not begin with its id", migrate.AdoptConfig{}},
		"no transactions": {"ALTER TABLE t_outbox_event ENGINE = MyISAM", "is kept by MyISAM", migrate.AdoptConfig{}},
		"text as id":      {"ALTER TABLE t_outbox_event MODIFY id VARCHAR(20)", "column id of", migrate.AdoptConfig{}},
		"bytes as event":  {"ALTER TABLE t_outbox_event MODIFY event_id BINARY(16)", "column event_id of", migrate.AdoptConfig{}},
		"ids without end": {"UPDATE t_outbox_event SET id = -id WHERE id = 1", "not above 0", migrate.AdoptConfig{}},
		"no number":       {"UPDATE t_outbox_event SET status = '0'; ALTER TABLE t_outbox_event MODIFY status TINYINT NOT NULL", "the column is a number", migrate.AdoptConfig{Status: map[string][]string{migrate.StatusSent: {"1"}}}},
		"too long a word": {"SELECT 1", "the column has 16 characters", migrate.AdoptConfig{Status: map[string][]string{migrate.StatusDead: {"GIVEN_UP_FOR_EVER"}}}},
		"no such word":    {"ALTER TABLE t_outbox_event MODIFY status ENUM('PENDING','SENT') NOT NULL", "the type of the column has no such word", migrate.AdoptConfig{Status: map[string][]string{migrate.StatusDead: {"DEAD"}}}},
		"an own outbox":   {"SELECT 1", "tables of others", migrate.AdoptConfig{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newClassic(t, classicTable)
			s.insert(1, 3, "PENDING")
			for statement := range strings.SplitSeq(c.change, ";") {
				s.exec(statement)
			}
			if name == "an own outbox" {
				s.exec("CREATE DATABASE " + s.own)
				s.exec("CREATE TABLE " + s.own + ".t (id INT)")
			}
			_, err := s.tryAdopt(c.cfg)
			ok := false
			for _, want := range strings.Split(c.says, "|") {
				ok = ok || err != nil && strings.Contains(err.Error(), want)
			}
			if !ok || strings.Contains(err.Error(), "\n") {
				t.Errorf("it says %v", err)
			}
			var left int
			if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM information_schema.tables WHERE table_schema = ? AND table_name <> 't'`, s.own).Scan(&left); err != nil || left > 0 {
				t.Errorf("a refused adoption has left tables behind (%v)", err)
			}
		})
	}
}

func TestATableWhoseNameIsNotPlainIsNamedAsSQLTakesIt(t *testing.T) {
	t.Parallel()
	s := newClassic(t, classicTable)
	s.exec("ALTER TABLE t_outbox_event DROP COLUMN payload, RENAME TO `Order Events`")
	name := s.database + ".`Order Events`"
	if _, err := s.tryAdopt(migrate.AdoptConfig{Table: name}); err == nil || !strings.Contains(err.Error(), name+" has no column payload") {
		t.Errorf("it says %v", err)
	}
}

func TestOfColumnsThatTheirOwnerHasChangedThoseAreNamed(t *testing.T) {
	t.Parallel()
	s := newClassic(t, classicTable)
	s.adopt(migrate.AdoptConfig{})
	s.exec("ALTER TABLE t_outbox_event DROP COLUMN last_error, MODIFY event_type VARCHAR(80)")
	if got, want := s.adopt(migrate.AdoptConfig{}).Changes, []string{"columns: event_type varchar(64), last_error text is now event_type varchar(80)"}; !slices.Equal(got, want) {
		t.Errorf("changes %q, want %q", got, want)
	}
}

func TestTimesWithoutAZoneAreReadAndWrittenInTheConfiguredOne(t *testing.T) {
	c := newClassic(t, classicTable)
	c.db.SetMaxOpenConns(1)
	c.exec(`SET time_zone = '+08:00'`)
	c.insert(1, 2, "PENDING")
	c.exec(`UPDATE t_outbox_event SET next_retry_time = CURRENT_TIMESTAMP + INTERVAL 1 HOUR WHERE id = 2`)
	p := c.adopt(migrate.AdoptConfig{Zone: "Asia/Shanghai"})
	if p.Send != 2 || p.Delayed != 1 {
		t.Errorf("the plan is %+v", p)
	}
	r := c.relay(newMemory(t), relay.Config{})
	c.becomes("PENDING 1, SENT 1")
	at := r.sends(1)[0].Headers[settle.HeaderAppendedAt]
	var micros int64
	if _, err := fmt.Sscan(at, &micros); err != nil || time.Since(time.UnixMicro(micros)).Abs() > time.Minute {
		t.Errorf("appended at %s, %v", time.UnixMicro(micros), err)
	}
	var off float64
	if err := c.db.QueryRowContext(context.Background(), `SELECT abs(TIMESTAMPDIFF(SECOND, updated_at, CURRENT_TIMESTAMP)) FROM t_outbox_event WHERE id = 1`).Scan(&off); err != nil || off > 60 {
		t.Errorf("updated_at is %v s off (%v)", off, err)
	}
}
