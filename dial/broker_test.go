package dial_test

import (
	"context"
	"testing"

	"github.com/settlemq/settle/dial"
)

// Who keeps what it was given beside an error, and asks later whether there is a
// broker, must not be told that there is one.
func TestABrokerThatIsNotReachedIsNone(t *testing.T) {
	for _, at := range []string{"kafka://127.0.0.1:1", "amqp://guest:guest@127.0.0.1:1", "nats://tok@127.0.0.1:1", "rocketmq://127.0.0.1:1"} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if b, err := dial.Broker(ctx, at, dial.BrokerConfig{}); err == nil || b != nil {
			t.Errorf("%s: a broker of type %T, and error %v", at, b, err)
		}
	}
}
