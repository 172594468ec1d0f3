package concurrent

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/consumer"
)

// Members lets two members of a group, each with connections of its own, consume
// so many keys with so many events each, by handlers of which every fifth fails
// at its first attempt.
func Members(t *testing.T, open Open, keys, each int) {
	all := processes(t, open, 2)
	broker := memory.New(memory.Config{})
	defer func() { _ = broker.Close() }()
	for n := 1; n <= each; n++ {
		var batch []settle.Message
		for k := range keys {
			e := Item(fmt.Sprintf("k%02d", k), n).Record.Event
			e.Topic = settle.DefaultTopic
			batch = append(batch, settle.Message{Event: e, ID: e.ID})
		}
		for _, r := range broker.Publish(t.Context(), batch) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var tried sync.Map
	var members sync.WaitGroup
	for _, p := range all {
		c := consumer.New("g", broker, p.Inbox, consumer.Config{
			Topics: []string{settle.DefaultTopic}, RetryPoll: 5 * time.Millisecond, Retry: settle.Backoff{Base: time.Millisecond}, Concurrency: 3,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		c.Handle("x", func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
			if err := p.WriteEffect(ctx, tx, e.ID); err != nil {
				return err
			}
			if _, again := tried.LoadOrStore(e.ID, true); !again && e.AggregateSeq%5 == 0 {
				return errUnlucky
			}
			return nil
		})
		members.Go(func() {
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for all[0].count(t, `SELECT count(*) FROM t_message_consume_log WHERE status = 'APPLIED'`) < keys*each && ctx.Err() == nil && !t.Failed() {
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	members.Wait()
	WantOnceInOrder(t, all[0].Reader, keys*each)
}
