package rabbitmq_test

import (
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rabbitmq"
)

func TestAnEventWhoseTopicRabbitMQCanNotHaveIsRefusedForGoodAndOthersGoOn(t *testing.T) {
	r := newRig(t, serverForTest(t))
	b := closing(t, r.open(t, rabbitmq.Config{Declare: true}))
	batch := events(r.topic, "k", 4)
	for i, topic := range map[int]string{1: "amq.topic", 2: strings.Repeat("t", 128)} {
		batch[i].Event.Topic, batch[i].Event.AggregateID = topic, "refused "+topic[:3]
	}
	for i, got := range b.Publish(t.Context(), batch) {
		bad := i == 1 || i == 2
		switch {
		case bad && (settle.ScopeOf(got.Err) != settle.ScopeRecord || !settle.IsPermanent(got.Err) || !strings.Contains(got.Err.Error(), "can't be")):
			t.Errorf("topic %q: got %v, want a record error for good that says why", batch[i].Event.Topic, got.Err)
		case !bad && got.Err != nil:
			t.Errorf("a sound event: %v", got.Err)
		}
	}
}
