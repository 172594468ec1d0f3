package drill

import (
	"context"
	"database/sql"
	"fmt"
)

// How many points a curve may have: rates are read best when they are smooth,
// what is open when nothing is hidden between two points.
const (
	ratePoints = 120
	openPoints = 600
)

// curve counts orders in steps of the same length. Step is in seconds; element
// i counts what happened from i×Step on, until the next.
type curve struct {
	Step      float64 `json:"step"`
	Placed    []int64 `json:"placed"`
	Completed []int64 `json:"completed"`
	Cancelled []int64 `json:"cancelled"`
}

// Open returns how many orders were open at the end of each step.
func (c curve) Open() []int64 {
	open := make([]int64, len(c.Placed))
	var n int64
	for i := range open {
		n += c.Placed[i] - c.Completed[i] - c.Cancelled[i]
		open[i] = n
	}
	return open
}

// What is outside of the time line counts at its nearer end.
const countOverTime = `SELECT 'PLACED' AS what, MIN(MAX((created_at-:began)/:step,0),:last) AS i, COUNT(*) FROM orders GROUP BY i
  UNION ALL SELECT status, MIN(MAX((updated_at-:began)/:step,0),:last) AS i, COUNT(*) FROM orders WHERE status IN ('COMPLETED','CANCELLED') GROUP BY status, i`

// curve counts the orders of a drill that began at a microsecond and lasted so
// many seconds, with at most most points.
func (f *Facts) curve(ctx context.Context, began int64, duration float64, most int) (curve, error) {
	step := stepOf(duration, most)
	n := int(int64(duration*1e6)/step) + 1
	c := curve{Step: float64(step) / 1e6, Placed: make([]int64, n), Completed: make([]int64, n), Cancelled: make([]int64, n)}
	into := map[string][]int64{"PLACED": c.Placed, "COMPLETED": c.Completed, "CANCELLED": c.Cancelled}
	err := each(ctx, f.db, countOverTime, func(rows *sql.Rows) error {
		var what string
		var i, count int64
		if err := rows.Scan(&what, &i, &count); err != nil {
			return err
		}
		into[what][i] = count
		return nil
	}, sql.Named("began", began), sql.Named("step", step), sql.Named("last", n-1))
	if err != nil {
		return c, fmt.Errorf("count orders over time: %w", err)
	}
	return c, nil
}

// stepOf returns the shortest round step, in microseconds, that cuts duration
// seconds into fewer than most pieces.
func stepOf(duration float64, most int) int64 {
	for unit := int64(10_000); ; unit *= 10 {
		for _, digit := range []int64{1, 2, 5} {
			if step := digit * unit; duration*1e6/float64(step) < float64(most-1) {
				return step
			}
		}
	}
}
