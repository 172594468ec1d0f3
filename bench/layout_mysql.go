package main

import (
	"context"
	"fmt"
	"strings"
)

// logOnMySQL has the columns of Settle's table and no index but its keys: what
// reads a log needs no more.
var logOnMySQL = layout{
	create: scripted(`
CREATE TABLE t_outbox_event (
  id             BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  event_id       VARCHAR(191) NOT NULL UNIQUE,
  event_type     VARCHAR(191) NOT NULL,
  aggregate_type VARCHAR(191) NOT NULL DEFAULT '',
  aggregate_id   VARCHAR(191) NOT NULL,
  aggregate_seq  BIGINT       NOT NULL DEFAULT 0,
  biz_key        VARCHAR(191),
  trace_id       VARCHAR(191),
  causation_id   VARCHAR(191),
  supersedes     VARCHAR(191),
  topic          VARCHAR(191) NOT NULL DEFAULT 'order-domain-event',
  version        INT          NOT NULL DEFAULT 1,
  content_type   VARCHAR(191) NOT NULL DEFAULT 'application/json',
  occurred_at    DATETIME(6),
  appended_at    DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  not_before     DATETIME(6),
  headers        MEDIUMTEXT,
  payload        LONGBLOB     NOT NULL
) ENGINE = InnoDB;
CREATE TABLE checkpoint (seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, position BIGINT NOT NULL) ENGINE = InnoDB`),
	fill:   fillMySQL("t_outbox_event", insertLogOnMySQL, `(%[1]s, '`+eventType+`', 'order', %[2]s, UTC_TIMESTAMP(6), %[3]s)`),
	insert: insertLogOnMySQL + `VALUES (?, '` + eventType + `', 'order', ?, UTC_TIMESTAMP(6), ?)`,
	table:  "t_outbox_event",
}

const insertLogOnMySQL = `INSERT INTO t_outbox_event (event_id, event_type, aggregate_type, aggregate_id, occurred_at, payload) `

// queueOnMySQL is the classic outbox, a queue by status, with no index but its
// keys and the one that the relay reads by: its best case. There are no partial
// indexes; that of the status has the id behind it.
var queueOnMySQL = layout{
	create: scripted(`
CREATE TABLE t_outbox_event (
  id              BIGINT      NOT NULL AUTO_INCREMENT PRIMARY KEY,
  event_id        VARCHAR(64) NOT NULL UNIQUE,
  aggregate_type  VARCHAR(64) NOT NULL,
  aggregate_id    VARCHAR(64) NOT NULL,
  event_type      VARCHAR(64) NOT NULL,
  payload         LONGTEXT    NOT NULL,
  status          VARCHAR(16) NOT NULL DEFAULT 'PENDING',
  retry_count     INT         NOT NULL DEFAULT 0,
  next_retry_time DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  last_error      TEXT,
  created_at      DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  updated_at      DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  KEY i_outbox_pending (status)
) ENGINE = InnoDB`),
	fill:   fillMySQL("t_outbox_event", insertQueue, `(%[1]s, 'order', %[2]s, '`+eventType+`', %[3]s)`),
	insert: insertQueue + `VALUES (?, 'order', ?, '` + eventType + `', ?)`,
	table:  "t_outbox_event",
}

// Events as event.go has them: of a number, of that and the keys' count, and of
// that, the repetitions of a large payload and the length of a small one.
const (
	idOnMySQL      = `CONCAT('` + idPrefix + `', LPAD(LOWER(HEX(%[1]s)), 12, '0'))`
	keyOnMySQL     = `CONCAT('o-', %[1]s %% %[2]d)`
	payloadOnMySQL = `IF(%[1]s %% large = large - 1, CONCAT('{"order_id":"', %[1]s, '","note":"', REPEAT(MD5(%[1]s), %[2]d), '"}'),
 CONCAT(RPAD(CONCAT('{"order_id":"', %[1]s, '","note":"'), %[3]d, 'x'), '"}'))`
)

// fillMySQL fills a table by a statement for each transaction, whose rows are
// made of an event's id, key and payload. An INSERT … SELECT would leave out ids.
func fillMySQL(table, insert, row string) func(context.Context, *place, filling) error {
	return func(ctx context.Context, p *place, f filling) error {
		rows := make([]string, f.perTransaction)
		for i := range rows {
			n := fmt.Sprintf("(n + %d)", i)
			rows[i] = fmt.Sprintf(row, fmt.Sprintf(idOnMySQL, n), fmt.Sprintf(keyOnMySQL, n, f.keys), fmt.Sprintf(payloadOnMySQL, n, largeBytes/32, payloadBytes-2))
		}
		return p.exec(ctx, fmt.Sprintf(`CREATE PROCEDURE bench_fill() BEGIN
 DECLARE n BIGINT DEFAULT 0; DECLARE large BIGINT DEFAULT %d;
 WHILE n < %d DO
  %s VALUES %s;
  SET n = n + %d;
 END WHILE; END`, f.every(), f.events, insert, strings.Join(rows, ","), len(rows)), `CALL bench_fill()`, `ANALYZE TABLE `+table, `SELECT max(length(payload)) FROM `+table)
	}
}

// shopOnMySQL is the business.
var shopOnMySQL = shop{
	tables: `CREATE TABLE orders (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, order_id VARCHAR(64) NOT NULL UNIQUE, customer VARCHAR(64) NOT NULL, amount DECIMAL(18,2) NOT NULL, status VARCHAR(16) NOT NULL, created_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)) ENGINE = InnoDB;
CREATE TABLE order_line (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, order_id VARCHAR(64) NOT NULL, sku VARCHAR(64) NOT NULL, quantity INT NOT NULL) ENGINE = InnoDB`,
	order:   `INSERT INTO orders (order_id, customer, amount, status) VALUES (?, ?, 199.00, 'CREATED')`,
	line:    `INSERT INTO order_line (order_id, sku, quantity) VALUES (?, 'sku-1', 2)`,
	account: "CREATE TABLE account (`key` VARCHAR(64) NOT NULL PRIMARY KEY, amount BIGINT NOT NULL) ENGINE = InnoDB",
}
