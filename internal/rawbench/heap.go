package rawbench

import (
	"runtime"
	"runtime/metrics"
	"time"
)

// watchHeap samples the live heap (what the last collection found in use)
// until done is closed, and returns its highest value in MB.
func watchHeap(done <-chan struct{}) float64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	highest := uint64(0)
	look := func() {
		metrics.Read(sample)
		highest = max(highest, sample[0].Value.Uint64())
	}
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-tick.C:
			look()
		case <-done:
			tick.Stop()
			runtime.GC() // a short run may have had no collection
			look()
			return float64(highest) / (1 << 20)
		}
	}
}
