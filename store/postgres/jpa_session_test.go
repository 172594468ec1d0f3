package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// classicTables are those of examples/spring-contract.
const classicTables = `
CREATE TABLE t_order (id BIGSERIAL PRIMARY KEY, order_id VARCHAR(64) NOT NULL UNIQUE, user_id BIGINT NOT NULL, amount NUMERIC(18,2) NOT NULL, status VARCHAR(32) NOT NULL,
  created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE t_outbox_event (id BIGSERIAL PRIMARY KEY, event_id VARCHAR(64) NOT NULL UNIQUE, aggregate_type VARCHAR(64) NOT NULL, aggregate_id VARCHAR(64) NOT NULL,
  event_type VARCHAR(64) NOT NULL, payload JSONB NOT NULL, headers JSONB, status VARCHAR(16) NOT NULL, retry_count INT NOT NULL DEFAULT 0,
  next_retry_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, last_error TEXT, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE INDEX idx_outbox_status_retry ON t_outbox_event (status, next_retry_time, id);
CREATE TABLE t_message_consume_log (id BIGSERIAL PRIMARY KEY, consumer_group VARCHAR(128) NOT NULL, message_id VARCHAR(64) NOT NULL, biz_key VARCHAR(64),
  status VARCHAR(16) NOT NULL, consumed_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE (consumer_group, message_id));`

// jpaStatements are what Hibernate 6.6 sends through pgjdbc 42.7 for the
// entities of examples/spring-contract, as a server's log shows it: every
// column is named, and IDENTITY makes it ask for all that the table has.
var jpaStatements = map[string]string{
	"order": "insert into t_order (amount,created_at,order_id,status,updated_at,user_id) values ($1,$2,$3,$4,$5,$6)\nRETURNING *",
	"event": "insert into t_outbox_event (aggregate_id,aggregate_type,created_at,event_id,event_type,headers,last_error,next_retry_time,payload,retry_count,status,updated_at)" +
		" values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12)\nRETURNING *",
	"pooled": "insert into t_outbox_event (aggregate_id,aggregate_type,created_at,event_id,event_type,headers,last_error,next_retry_time,payload,retry_count,status,updated_at,id)" +
		" values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13)",
	"lock":    "select o1_0.id,o1_0.amount,o1_0.created_at,o1_0.order_id,o1_0.status,o1_0.updated_at,o1_0.user_id from t_order o1_0 where o1_0.order_id=$1 for no key update",
	"amend":   "update t_order set amount=$1,created_at=$2,order_id=$3,status=$4,updated_at=$5,user_id=$6 where id=$7",
	"due":     "SELECT * FROM t_outbox_event\nWHERE status = 'PENDING' AND next_retry_time <= $1\nORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED",
	"find":    "select oe1_0.id,oe1_0.aggregate_id,oe1_0.aggregate_type,oe1_0.created_at,oe1_0.event_id,oe1_0.event_type,oe1_0.headers,oe1_0.last_error,oe1_0.next_retry_time,oe1_0.payload,oe1_0.retry_count,oe1_0.status,oe1_0.updated_at from t_outbox_event oe1_0 where oe1_0.id=$1",
	"save":    "update t_outbox_event set aggregate_id=$1,aggregate_type=$2,created_at=$3,event_id=$4,event_type=$5,headers=$6,last_error=$7,next_retry_time=$8,payload=$9,retry_count=$10,status=$11,updated_at=$12 where id=$13",
	"looked":  "select cle1_0.id,cle1_0.biz_key,cle1_0.consumed_at,cle1_0.consumer_group,cle1_0.message_id,cle1_0.status from t_message_consume_log cle1_0 where cle1_0.consumer_group=$1 and cle1_0.message_id=$2",
	"log":     "insert into t_message_consume_log (biz_key,consumed_at,consumer_group,message_id,status) values ($1,$2,$3,$4,$5)\nRETURNING *",
	"logged":  "update t_message_consume_log set biz_key=$1,consumed_at=$2,consumer_group=$3,message_id=$4,status=$5 where id=$6",
	"next_id": "select nextval('t_outbox_event_id_seq')",
}

// jpaSession is a connection of pgjdbc: its statements were prepared long ago.
type jpaSession struct {
	conn *pgconn.PgConn
	name string
	n    int
}

const jpaZone = "Asia/Shanghai"

func openJPA(ctx context.Context, at, name string) (*jpaSession, error) {
	cfg, err := pgconn.ParseConfig(at)
	if err != nil {
		return nil, err
	}
	cfg.RuntimeParams["timezone"] = jpaZone
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &jpaSession{conn: conn, name: name}
	for name, text := range jpaStatements {
		if _, err := conn.Prepare(ctx, name, text, nil); err != nil {
			return nil, errors.Join(fmt.Errorf("prepare %s: %w", name, err), conn.Close(ctx))
		}
	}
	return s, nil
}

// run executes a prepared statement and returns the text of what it gives. The
// parameters are text; of them, null stands for NULL.
func (s *jpaSession) run(ctx context.Context, name string, params ...string) ([][]string, error) {
	values := make([][]byte, len(params))
	for i, p := range params {
		if p != null {
			values[i] = []byte(p)
		}
	}
	result := s.conn.ExecPrepared(ctx, name, values, nil, nil).Read()
	if result.Err != nil {
		return nil, fmt.Errorf("%s: %w", name, result.Err)
	}
	rows := make([][]string, len(result.Rows))
	for i, row := range result.Rows {
		for _, v := range row {
			rows[i] = append(rows[i], string(v))
		}
	}
	return rows, nil
}

const null = "\x00"

func (s *jpaSession) inTransaction(ctx context.Context, do func() error) error {
	if _, err := s.conn.Exec(ctx, "BEGIN").ReadAll(); err != nil {
		return err
	}
	end := "COMMIT"
	err := do()
	if err != nil {
		end = "ROLLBACK"
	}
	_, ending := s.conn.Exec(ctx, end).ReadAll()
	return errors.Join(err, ending)
}

// jpaTime is the JVM's clock as pgjdbc writes it: local, without a zone.
func jpaTime() string { return time.Now().In(shanghai).Format("2006-01-02 15:04:05.000000") }

var shanghai = time.FixedZone(jpaZone, 8*60*60)

// place creates an order and changes it, each with its event, and consumes
// something.
func (s *jpaSession) place(ctx context.Context) error {
	s.n++
	key := fmt.Sprintf("%s-%d", s.name, s.n)
	var id string
	err := s.inTransaction(ctx, func() error {
		now := jpaTime()
		row, err := s.run(ctx, "order", "199.00", now, key, "CREATED", now, "7")
		if err != nil {
			return err
		}
		id = row[0][0]
		return s.event(ctx, "event", key, "created")
	})
	if err != nil {
		return err
	}
	err = s.inTransaction(ctx, func() error {
		if _, err := s.run(ctx, "lock", key); err != nil {
			return err
		}
		// Hibernate flushes what is inserted before what is updated.
		if err := s.event(ctx, "event", key, "amended"); err != nil {
			return err
		}
		now := jpaTime()
		_, err := s.run(ctx, "amend", "1.10", now, key, "AMENDED", now, "7", id)
		return err
	})
	if err != nil {
		return err
	}
	return s.consume(ctx, key)
}

func (s *jpaSession) event(ctx context.Context, statement, key, verb string, more ...string) error {
	now := jpaTime()
	id := key + "-" + verb
	envelope := `{"eventId":"` + id + `","eventType":"order.` + verb + `","aggregateType":"Order","aggregateId":"` + key + `","bizKey":"` + key + `","occurredAt":"` + time.Now().UTC().Format(time.RFC3339Nano) +
		`","traceId":"t-` + id + `","version":1,"payload":{"amount":199.00,"big":9007199254740993,"exp":1E+3,"note":"<&> 加急 \"x\""}}`
	params := append([]string{key, "Order", now, id, "order." + verb, `{"source":"order-service"}`, null, now, envelope, "0", "PENDING", now}, more...)
	_, err := s.run(ctx, statement, params...)
	return err
}

// pooled stores an event under an id that was taken from the sequence before.
func (s *jpaSession) pooled(ctx context.Context) error {
	row, err := s.run(ctx, "next_id")
	if err != nil {
		return err
	}
	return s.inTransaction(ctx, func() error { return s.event(ctx, "pooled", s.name+"-pooled", "created", row[0][0]) })
}

func (s *jpaSession) consume(ctx context.Context, message string) error {
	if _, err := s.run(ctx, "looked", "inventory", message); err != nil {
		return err
	}
	row, err := s.run(ctx, "log", message, jpaTime(), "inventory", message, "PROCESSING")
	if err != nil {
		return err
	}
	return s.inTransaction(ctx, func() error {
		_, err := s.run(ctx, "logged", message, jpaTime(), "inventory", message, "SUCCESS", row[0][0])
		return err
	})
}

// relayOne is a turn of the service's own relay: what it loads is saved as it
// was loaded, but for the status.
func (s *jpaSession) relayOne(ctx context.Context) error {
	due, err := s.run(ctx, "due", jpaTime(), "1")
	if err != nil || len(due) == 0 {
		return err
	}
	return s.inTransaction(ctx, func() error {
		if _, err := s.run(ctx, "find", due[0][0]); err != nil {
			return err
		}
		id, eventID, aggregateType, aggregateID, eventType, payload, headers := due[0][0], due[0][1], due[0][2], due[0][3], due[0][4], due[0][5], due[0][6]
		_, err := s.run(ctx, "save", aggregateID, aggregateType, due[0][11], eventID, eventType, headers, null, due[0][9], payload, due[0][8], "SENT", jpaTime(), id)
		return err
	})
}
