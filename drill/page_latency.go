package drill

import (
	"context"
	"database/sql"
	"fmt"
	"math"
)

// A histogram's bins grow by the same factor: latencies lie between a
// millisecond and minutes.
const (
	firstEdge     = 1e-4 // seconds; what is quicker counts there
	binsPerDecade = 8
	lastBin       = 8*binsPerDecade - 1 // up to 10,000 s; what is slower counts there
)

// histogram is how long something took: the share of all in each bin, in
// percent, with the bin's lower edge in seconds.
type histogram struct {
	Name  string    `json:"name"`
	Count int64     `json:"count"`
	Edges []float64 `json:"edges"`
	Share []float64 `json:"share"`
	Quantiles
}

// histograms of all events and of all orders, over the same bins.
func (f *Facts) histograms(ctx context.Context, r *Report) ([]histogram, error) {
	all := []histogram{
		{Name: "event: commit → published", Quantiles: r.Latency.CommitToPublished},
		{Name: "order: placed → completed", Quantiles: r.Latency.OrderToCompleted},
	}
	counts := make([][]int64, len(all))
	low, high := lastBin, 0
	for i, text := range []string{commitToPublished, orderToCompleted} {
		var err error
		if counts[i], err = f.countLatencies(ctx, text); err != nil {
			return nil, err
		}
		for bin, n := range counts[i] {
			if n > 0 {
				low, high = min(low, bin), max(high, bin)
			}
			all[i].Count += n
		}
	}
	for i := range all {
		for bin := low; bin <= high+1; bin++ {
			all[i].Edges = append(all[i].Edges, firstEdge*math.Pow(10, float64(bin)/binsPerDecade))
			share := 0.0
			if bin <= high && all[i].Count > 0 {
				share = 100 * float64(counts[i][bin]) / float64(all[i].Count)
			}
			all[i].Share = append(all[i].Share, share)
		}
	}
	return all, nil
}

// countLatencies counts the microseconds d that text selects by bins.
func (f *Facts) countLatencies(ctx context.Context, text string) ([]int64, error) {
	counts := make([]int64, lastBin+1)
	err := each(ctx, f.db, text, func(rows *sql.Rows) error {
		var d int64
		if err := rows.Scan(&d); err != nil {
			return err
		}
		bin := math.Log10(math.Max(float64(d)/1e6, firstEdge)/firstEdge) * binsPerDecade
		counts[min(int(bin), lastBin)]++
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count latencies: %w", err)
	}
	return counts, nil
}
