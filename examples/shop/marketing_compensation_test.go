package shop

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/examples/shop/lifecycle"
	"github.com/settlemq/settle/govern"
)

// forgetful is a coupon system whose answers to grants are always lost.
type forgetful struct{ *fakeCoupons }

func (f forgetful) Grant(ctx context.Context, orderID, customerID string, value Cents) (string, error) {
	_, err := f.fakeCoupons.Grant(ctx, orderID, customerID, value)
	return "", errors.Join(err, errors.New("the answer was lost"))
}

func TestARewardThatIsGivenUpIsUndoneBeforeTheCancelledOrderIsHeardOf(t *testing.T) {
	coupons := newFakeCoupons()
	service := newMarketing(baseIn(t, "marketing", outsiders{coupons: forgetful{coupons}}))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cfg, err := testConfig(t.TempDir()).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	cfg.StatsDir = ""
	p, m := &process{cfg: cfg}, &member{definition: definition{name: "marketing"}, participant: service, db: service.db}
	if p.broker, err = dial.Broker(ctx, "memory:", dial.BrokerConfig{Topics: []string{settle.DefaultTopic}}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.broker.Close() }()
	event := func(kind string) *settle.Event {
		return &settle.Event{Type: kind, AggregateID: "o1", Payload: []byte(`{"orderId":"o1","customerId":"c","amount":"50.00","items":[{"sku":"a","quantity":1}]}`)}
	}
	paid, cancelled := event(lifecycle.OrderPaid), event(lifecycle.OrderCancelled)
	if err := inTx(ctx, service.db, func(tx *sql.Tx) error { return service.db.Append(ctx, tx, paid, cancelled) }); err != nil {
		t.Fatal(err)
	}
	var running errgroup.Group
	running.Go(func() error { return p.relay(ctx, m) })
	running.Go(func() error { return p.consume(ctx, m) })
	var letters []govern.DeadLetter
	eventually(t, "order.paid is a dead letter and order.cancelled waits", func() bool {
		if letters, err = service.db.Governance.DeadLetters(ctx, govern.Filter{}); err != nil {
			t.Fatal(err)
		}
		return len(letters) == 1 && number(t, service.db.Reader, `SELECT COUNT(*) FROM t_consume_retry WHERE event_id = $1`, cancelled.ID) == 1
	})
	if n := number(t, service.db.Reader, `SELECT COUNT(*) FROM t_reward`); n != 0 {
		t.Error("order.cancelled went ahead of a failed order.paid")
	}
	if _, err := service.db.Governance.Compensate(ctx, govern.Act{By: "ann", Reason: "the coupon system is broken"}, letters[0].ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are done", func() bool {
		return number(t, service.db.Reader, `SELECT COUNT(*) FROM t_message_consume_log WHERE (event_id, status) IN (($1, 'COMPENSATED'), ($2, 'APPLIED'))`, paid.ID, cancelled.ID) == 2
	})
	stop()
	if err := running.Wait(); err != nil {
		t.Error(err)
	}
	if n := number(t, service.db.Reader, `SELECT COUNT(*) FROM t_reward WHERE state = 'WAIVED'`); n != 1 || len(coupons.value) != 0 || !coupons.revoked["o1"] {
		t.Errorf("%d rewards are waived, coupons %v, revoked %v", n, coupons.value, coupons.revoked)
	}
}
