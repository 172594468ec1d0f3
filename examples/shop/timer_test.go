package shop

import (
	"testing"
	"time"
)

// sentAt is when a timer was sent, before its time or behind it, in microseconds.
const sentAt = `SELECT COALESCE(MIN(c.created_at + CAST(e.value->>3 AS INTEGER) - o.not_before), 0)
FROM t_outbox_event o JOIN t_outbox_checkpoint c ON c.sent IS NOT NULL, json_each(c.sent) t, json_each(t.value) e
WHERE o.not_before IS NOT NULL AND CAST(e.value->>0 AS INTEGER) = o.id`

const timersSent = `SELECT COUNT(*) FROM v_outbox_event WHERE not_before IS NOT NULL AND status = 'SENT'`

// A relay takes a row whose time is a little ahead as due, so that it need not
// be put aside. A timer is no such row, however short it is and however late
// the relay comes to read it.
func TestNoTimerGoesOffBeforeItsTimeHoweverShort(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Rules.PaymentWindow = 80 * time.Millisecond
	r := start(t, memoryShop, cfg)
	for _, key := range []string{"k1", "k2", "k3"} {
		r.place(t, key, Item{"any", 1})
	}
	db := r.view.orders.db.Reader
	eventually(t, "three timers sent", func() bool { return number(t, db, timersSent) == 3 })
	if early := number(t, db, sentAt); early < 0 {
		t.Errorf("a timer was sent %v before its time", -time.Duration(early)*time.Microsecond)
	}
}
