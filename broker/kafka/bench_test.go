package kafka_test

import (
	"fmt"
	"testing"

	"github.com/settlemq/settle"
)

// What a fence costs: batches of a relay's, one after the other, with and
// without a transaction around each.
func BenchmarkPublish(b *testing.B) {
	at := serverForTest(b)
	for _, rows := range []int{1, 50, 500} {
		for _, fence := range []bool{false, true} {
			b.Run(fmt.Sprintf("rows=%d/fence=%v", rows, fence), func(b *testing.B) {
				r := newRig(b, at)
				cfg := r.config()
				cfg.Fence = fence
				pub := &leading{Broker: r.open(b, cfg), outbox: r.topic, epoch: 1}
				defer pub.Close()
				batch := make([]settle.Message, rows)
				for i := range batch {
					batch[i] = r.messageOf(fmt.Sprint("k", i%100), int64(i/100+1), 512)
				}
				if got := pub.Publish(b.Context(), batch[:1])[0]; got.Err != nil {
					b.Fatal(got.Err)
				}
				for b.Loop() {
					for _, got := range pub.Publish(b.Context(), batch) {
						if got.Err != nil {
							b.Fatal(got.Err)
						}
					}
				}
				b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}
