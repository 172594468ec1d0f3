package dial_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/txmsg"
)

func TestBrokersWithoutHalfMessagesAreRefusedWithTheOutboxInTheirPlace(t *testing.T) {
	for url, name := range map[string]string{
		"kafka://127.0.0.1:1": "Kafka", "rabbitmq://guest:guest@127.0.0.1:1": "RabbitMQ", "nats://127.0.0.1:1": "NATS JetStream", "memory:": "the broker in memory",
	} {
		_, err := dial.HalfMessages(t.Context(), url, "order", dial.BrokerConfig{})
		if !errors.Is(err, txmsg.ErrUnsupported) || !strings.Contains(err.Error(), name+" has no half messages") || !strings.Contains(err.Error(), "append the event to the outbox") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
