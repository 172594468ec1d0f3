package postgres_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest/adopted"
)

// classicConsumeLog is the consume log that tutorials teach and services have.
const classicLog = `CREATE TABLE t_message_consume_log (id BIGSERIAL PRIMARY KEY, consumer_group VARCHAR(128) NOT NULL, message_id VARCHAR(64) NOT NULL, biz_key VARCHAR(64) NOT NULL,
 status VARCHAR(16) NOT NULL, consumed_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE (consumer_group, message_id))`

// classicConsumeLog is that of services that do without a key of the business,
// and a table of theirs.
var classicConsumeLog = strings.Replace(classicLog, "biz_key VARCHAR(64) NOT NULL", "biz_key VARCHAR(64)", 1) + `;
CREATE TABLE t_effect (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, row_id text NOT NULL)`

// newSharedLog makes a service with a consume log and no outbox, and adopts it.
func newSharedLog(t testing.TB, zone string) *classic {
	c := newClassic(t, classicConsumeLog)
	a, err := postgres.NewAdopt(c.at, migrate.AdoptConfig{ConsumeLog: c.schema + ".t_message_consume_log", Zone: zone})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := a.Run(t.Context()); err != nil || p.ConsumeLog == "" || p.Table != "" {
		t.Fatalf("adopting the consume log: %v, %+v", err, p)
	}
	return c
}

func (c *classic) effect(ctx context.Context, tx *sql.Tx, id string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO `+c.schema+`.t_effect (row_id) VALUES ($1)`, id)
	return err
}

func sharedItem(id, key string) settle.Item {
	return settle.Item{Attempt: 1, Record: settle.Record{Event: &settle.Event{ID: id, Type: "x", AggregateType: "order", AggregateID: key, AppendedAt: time.Now(), Payload: []byte(`{}`)}}}
}

// apply applies items and returns their verdicts.
func (c *classic) apply(s *postgres.Store, items ...settle.Item) []settle.Verdict {
	c.t.Helper()
	rs, err := s.Inbox().Apply(context.Background(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
		return c.effect(ctx, tx, items[i].Record.Event.ID)
	})
	if err != nil {
		c.t.Fatal(err)
	}
	var vs []settle.Verdict
	for _, r := range rs {
		vs = append(vs, r.Verdict)
	}
	return vs
}

func TestInboxBesideForeignConsumers(t *testing.T) { adopted.InboxBeside(t, service) }

func TestWhatAForeignConsumerHasDoneIsADuplicateAndWhatItHasBegunWaitsFifteenMinutesByTheClock(t *testing.T) {
	adopted.LeftOver(t, service)
}

func TestWhatIsKeptWaitingIsInHandForForeignConsumersAndADiscardedOneIsDone(t *testing.T) {
	adopted.KeptWaiting(t, service)
}

func TestAnEventWhoseEditWasAppliedIsDoneForForeignConsumers(t *testing.T) {
	adopted.Edited(t, service)
}

func TestForeignConsumersAndSettleHaveEachOfTwoThousandMessagesTakeEffectOnce(t *testing.T) {
	adopted.SideBySide(t, service, 2000)
}

func TestAConsumeLogThatCanNotBeSharedSaysWhy(t *testing.T) {
	adopted.NotShared(t, service, map[string][]string{
		"no unique index":     {`ALTER TABLE t_message_consume_log DROP CONSTRAINT t_message_consume_log_consumer_group_message_id_key`},
		"say what it means":   {`INSERT INTO t_message_consume_log (consumer_group, message_id, biz_key, status) VALUES ('g', 'x', '', 'OK')`},
		"must have a value":   {`ALTER TABLE t_message_consume_log ADD COLUMN tenant text NOT NULL`},
		"no classic consume":  {`ALTER TABLE t_message_consume_log RENAME COLUMN message_id TO msg`},
		"there is no consume": {`DROP TABLE t_message_consume_log`},
		"not a timestamp":     {`ALTER TABLE t_message_consume_log ALTER COLUMN consumed_at DROP DEFAULT`, `ALTER TABLE t_message_consume_log ALTER COLUMN consumed_at TYPE text`},
	})
}

func TestAnOutboxAndAConsumeLogAreAdoptedTogetherAndTheSQLDoesTheSame(t *testing.T) {
	adopted.Together(t, service)
}
