package shop

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
)

// BenchmarkOrdersThroughGroupCommit measures what the entry stores with 256
// requests waiting at a time: order, two lines and event each, all durable.
func BenchmarkOrdersThroughGroupCommit(b *testing.B) {
	orders := memberIn(b, b.TempDir(), "order").(*orderService)
	c := newCommitter(orders, 1024, 256, nil)
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	r := OrderRequest{CustomerID: "c", Amount: 1177, Items: []Item{{"a", 1}, {"b", 2}}}
	var n atomic.Int64
	b.SetParallelism(256)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p := &placement{key: fmt.Sprint("k", n.Add(1)), request: r, hash: r.hash()}
			if err := c.submit(ctx, p); err != nil || p.outcome != placedNew {
				b.Error(err, p.outcome)
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
	stop()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}
