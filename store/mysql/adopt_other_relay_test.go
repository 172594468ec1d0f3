package mysql_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
)

// beside is a publisher while whose work another relay does the same.
type beside struct {
	settle.Publisher
	also func()
}

func (b beside) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	b.also()
	return b.Publisher.Publish(ctx, batch)
}

func (r *relaying) foreignRows() (n int64, err error) {
	err = r.store.DB().QueryRowContext(context.Background(), `SELECT foreign_rows FROM settle_adoption`).Scan(&n)
	return n, err
}

func TestARelayThatSendsTheVeryRowsThatSettleSendsIsNoticed(t *testing.T) {
	c := newClassic(t, classicTable)
	c.adopt(migrate.AdoptConfig{})
	r := c.relay(newMemory(t), relay.Config{})
	c.insert(1, 3, "PENDING")
	r.sends(3)
	c.becomes("SENT 3")
	// What a person has sent once more is SENT already: that is nobody else's work.
	if _, err := r.store.Governance().Resend(t.Context(), govern.Act{By: "ana", Reason: "a test"}, "e-2"); err != nil {
		t.Fatal(err)
	}
	r.sends(4)
	r.stop()
	if n, err := r.foreignRows(); n != 0 || err != nil {
		t.Errorf("another relay was seen where there is none: %d, %v", n, err)
	}

	other := beside{r.broker, func() { c.exec(`UPDATE t_outbox_event SET status = 'SENT' WHERE event_id = 'e-5'`) }}
	c.insert(4, 6, "PENDING")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- relay.New(r.store.Log(), other, relay.Config{}).Run(ctx) }()
	eventually(t, "the other relay is noticed", func() (string, bool) {
		n, err := r.foreignRows()
		return fmt.Sprint(n, err), n == 1
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWhatWasSentBeforeARestartIsNobodyElsesWork(t *testing.T) {
	c := newClassic(t, classicTable)
	c.insert(1, 5, "SENT")
	c.insert(6, 10, "PENDING")
	c.adopt(migrate.AdoptConfig{})
	r := c.relay(newMemory(t), relay.Config{})
	r.sends(5)
	c.becomes("SENT 10")
	r.stop()
	if _, err := r.store.Governance().Restart(t.Context(), govern.Act{By: "ana", Reason: "a test"}, 1); err != nil {
		t.Fatal(err)
	}
	again := c.relay(r.broker, relay.Config{})
	c.insert(11, 12, "PENDING")
	r.sends(7)
	c.becomes("SENT 12")
	c.exec(`UPDATE t_outbox_event SET status = 'PENDING' WHERE event_id = 'e-12'`)
	r.sends(8)
	if n, err := again.foreignRows(); n != 0 || err != nil {
		t.Errorf("another relay was seen where there is none: %d, %v", n, err)
	}
}

func TestARowThatAProgramWritesBackAfterItsOwnAttemptIsAFindingAndNoRequest(t *testing.T) {
	c := newClassic(t, classicTable)
	c.adopt(migrate.AdoptConfig{})
	r := c.relay(newMemory(t), relay.Config{})
	c.insert(1, 3, "PENDING")
	r.sends(3)
	c.becomes("SENT 3")
	c.exec(`UPDATE t_outbox_event SET status = 'PENDING', retry_count = 1, updated_at = CURRENT_TIMESTAMP, next_retry_time = CURRENT_TIMESTAMP + INTERVAL 5 SECOND WHERE event_id = 'e-1'`)
	// A person's wish is below it in the table, so one look finds both.
	c.exec(`UPDATE t_outbox_event SET status = 'PENDING' WHERE event_id = 'e-3'`)
	r.sends(4)
	c.becomes("PENDING 1, SENT 2")
	if got := ids(r.broker.Log(settle.DefaultTopic)); got != "e-1 e-2 e-3 e-3" {
		t.Errorf("sent %s", got)
	}
}
