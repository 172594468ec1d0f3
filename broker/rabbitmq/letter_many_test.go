package rabbitmq_test

import (
	"os"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle/bridge/bridgetest"
)

func TestAHundredThousandLettersAreReadInBoundedMemory(t *testing.T) {
	at := serverForTest(t)
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("runs with SETTLE_TEST_ALL=1: it takes a while")
	}
	c := newClimber(t, at, time.Minute)
	b := closing(t, c.connection(t))
	g := c.declare(b)
	const n, size = 100_000, 2 << 10
	var last *amqp.DeferredConfirmation
	for i := range n {
		confirm, err := c.ch.PublishWithDeferredConfirm("", g.Dead[0], true, false, amqp.Publishing{Body: make([]byte, size), DeliveryMode: amqp.Persistent})
		must(t, err)
		if i%1000 == 999 {
			if last != nil {
				last.Wait()
			}
			last = confirm
		}
	}
	last.Wait()
	bridgetest.InBoundedMemory(t, b, g, n, 32<<20)
}
