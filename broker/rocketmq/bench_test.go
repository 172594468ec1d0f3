package rocketmq_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/settlemq/settle"
)

// BenchmarkPublish sends events of 512 bytes and of many keys, in calls of the size
// of a relay's.
func BenchmarkPublish(b *testing.B) {
	r := newRig(b, serverForTest(b))
	cfg := r.config()
	cfg.Queues = 8
	to := closing(b, r.open(b, cfg))
	for _, size := range []int{1, 32, 256, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			batch := events(r.topic, "k", size, 1)
			for i := range batch {
				batch[i].Event.Payload = []byte(`"` + strings.Repeat("x", 510) + `"`)
			}
			b.ResetTimer()
			for n := 0; n < b.N; n += size {
				for _, got := range to.Publish(b.Context(), batch) {
					if got.Err != nil {
						b.Fatal(got.Err)
					}
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkDeliver reads as many events as it is asked for.
func BenchmarkDeliver(b *testing.B) {
	r := newRig(b, serverForTest(b))
	cfg := r.config()
	cfg.Queues = 8
	to := closing(b, r.open(b, cfg))
	var batch []settle.Message
	for n := range b.N {
		m := event(r.topic, fmt.Sprint("k", n%1000), n/1000+1)
		m.Event.Payload = []byte(`"` + strings.Repeat("x", 510) + `"`)
		if batch = append(batch, m); len(batch) == 1000 || n == b.N-1 {
			published(b, to, batch)
			batch = batch[:0]
		}
	}
	b.ResetTimer()
	m := deliverTo(b, to, "bench", r.topic)
	m.await(b, b.N)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
