package kafka_test

import (
	"context"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/kafka"
)

// What the server can't take is the event's own or the topic's, is said so that
// whoever reads it knows what to do, and keeps nobody else.
func TestWhatKafkaCanNotTakeIsToldApartAndOthersGoOn(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.make(t, 2, nil)
	for name, declare := range map[string]bool{"declared": true, "not declared": false} {
		t.Run(name, func(t *testing.T) {
			b := r.open(t, kafka.Config{Declare: declare, MaxRecordBytes: 10_000})
			defer b.Close()
			batch := []settle.Message{r.messageOf("sound before", 1, 0)}
			type want struct {
				scope settle.Scope
				says  string
			}
			wants := []want{{}}
			refused := func(change func(e *settle.Event), w want) {
				m := r.messageOf("refused "+settle.NewID(), 1, 0)
				change(m.Event)
				batch, wants = append(batch, m), append(wants, w)
			}
			topic := func(to string) func(*settle.Event) { return func(e *settle.Event) { e.Topic = to } }
			for to, says := range map[string]string{
				"orders of today": "not ' '", "größe": "not 'ö'", "a/b": "not '/'", strings.Repeat("t", 180) + "!": "not '!'",
				".": "is not . or ..", "..": "is not . or ..", "__consumer_offsets": "Kafka's own", "__transaction_state": "Kafka's own",
			} {
				refused(topic(to), want{settle.ScopeRecord, says})
			}
			refused(func(e *settle.Event) { e.Headers = map[string]string{"giant": strings.Repeat("h", 12_000)} }, want{settle.ScopeRecord, "over the broker's limit"})
			if !declare {
				refused(topic("absent-"+settle.NewID()), want{settle.ScopeTopic, "does not exist"})
			}
			batch, wants = append(batch, r.messageOf("sound behind", 1, 0)), append(wants, want{})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for i, got := range b.Publish(ctx, batch) {
				w, to := wants[i], batch[i].Event.Topic
				switch {
				case w.says == "" && got.Err != nil:
					t.Errorf("a sound event: %v", got.Err)
				case w.says == "":
				case got.Err == nil || settle.ScopeOf(got.Err) != w.scope || !strings.Contains(got.Err.Error(), w.says):
					t.Errorf("topic %q: got %v, want a %v error that says %q", to, got.Err, w.scope, w.says)
				case settle.IsPermanent(got.Err) != (w.scope == settle.ScopeRecord):
					t.Errorf("topic %q: %v is for good or not, which it should not be", to, got.Err)
				}
			}
		})
	}
}
