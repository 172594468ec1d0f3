package rabbitmq_test

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
)

// deafen stops the channels that consume from a queue from hearing anything,
// until the function that it returns is called.
func (o *own) deafen(queue string) (again func()) {
	o.t.Helper()
	channels := `[C || {{Q, C, _}, _, _, _, _, _, _} <- ets:tab2list(consumer_created), element(4, Q) =:= <<"` + queue + `">>]`
	o.ctl("eval", `persistent_term:put(deaf, `+channels+`), [_|_] = persistent_term:get(deaf), [sys:suspend(C) || C <- persistent_term:get(deaf)].`)
	return func() {
		o.t.Helper()
		o.ctl("eval", `[sys:resume(C) || C <- persistent_term:get(deaf)].`)
	}
}

// A channel of RabbitMQ 3 that hears late that its queue was deleted, and finds
// one of the name, goes on as its consumer and passes nothing on.
func TestAConsumerThatHearsLateOfItsQueuesEndReadsTheNewOne(t *testing.T) {
	o := newOwn(t)
	for what, by := range map[string]func(t *testing.T, r *rig, queue string){
		"made again by its member": func(t *testing.T, r *rig, _ string) { r.awaitConsumer(t, r.topic+".g.0") },
		"made again by others": func(t *testing.T, r *rig, queue string) {
			arguments := amqp.Table{
				"x-queue-type": "quorum", "x-single-active-consumer": true, "x-delivery-limit": int64(1000), "x-overflow": "reject-publish",
				"x-dead-letter-exchange": "", "x-dead-letter-routing-key": r.topic + ".g.dead", "x-dead-letter-strategy": "at-least-once",
			}
			if _, err := r.ch.QueueDeclare(queue, true, false, false, false, arguments); err != nil {
				t.Fatal(err)
			}
			if err := r.ch.QueueBind(queue, "1", r.topic+".g", false, nil); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, o.At().String())
			r.introduce(t, "g")
			c := newCollector()
			b := closing(t, r.open(t, r.config()))
			c.subscribe(t, b, "g", r.topic)
			first := events(r.topic, "k", 26)
			publishAll(t, b, first)
			c.await(t, "all events", func() bool { return c.has(first) })
			queue := r.topic + ".g.2"
			again := o.deafen(queue)
			for _, q := range []string{r.topic + ".g.0", queue} {
				if _, err := r.ch.QueueDelete(q, false, false, false); err != nil {
					t.Fatal(err)
				}
			}
			by(t, r, queue)
			again()
			r.awaitConsumer(t, queue)
			second := events(r.topic, "l", 26)
			publishAll(t, b, second)
			deadline := time.Now().Add(3 * patience) // it consumes anew after a minute without records
			for !c.hasNow(second) {
				if time.Now().After(deadline) {
					t.Fatal("what went to the new queue never arrived")
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
}

// awaitConsumer waits until somebody consumes from a queue.
func (r *rig) awaitConsumer(t testing.TB, queue string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		ch := r.channel(t)
		found, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		_ = ch.Close()
		if err == nil && found.Consumers > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody consumes from %s: %v", queue, err)
		}
	}
}

func (c *collector) hasNow(batch []settle.Message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.has(batch)
}
