package outboxlog

// Run is the first and the last of ids that follow one another.
type Run [2]int64

// Runs joins sorted ids that follow one another: a rolled-back bulk insert is
// one run.
func Runs(ids []int64) []Run {
	var all []Run
	for _, id := range ids {
		if n := len(all); n > 0 && all[n-1][1]+1 == id {
			all[n-1][1] = id
			continue
		}
		all = append(all, Run{id, id})
	}
	return all
}

// Tear returns what is left of sorted runs that share no id, without the sorted
// ids given.
func Tear(runs []Run, ids []int64) []Run {
	var left []Run
	for _, r := range runs {
		for len(ids) > 0 && ids[0] < r[0] {
			ids = ids[1:]
		}
		for len(ids) > 0 && ids[0] <= r[1] {
			if ids[0] > r[0] {
				left = append(left, Run{r[0], ids[0] - 1})
			}
			r[0] = ids[0] + 1
			ids = ids[1:]
		}
		if r[0] <= r[1] {
			left = append(left, r)
		}
	}
	return left
}

// longRun is how many ids must follow one another to be looked up as a range:
// of a bulk insert that is open, one look does for all.
const longRun = 4

// Split returns the ids that stand alone, and the runs that are worth a range.
func Split(runs []Run) (single []int64, ranges []Run) {
	for _, r := range runs {
		if r[1]-r[0]+1 >= longRun {
			ranges = append(ranges, r)
			continue
		}
		for id := r[0]; id <= r[1]; id++ {
			single = append(single, id)
		}
	}
	return single, ranges
}

// Below returns the sorted holes that a range above the cursor does not cover.
func Below(holes []int64, cursor int64) []int64 {
	for i, id := range holes {
		if id > cursor {
			return holes[:i]
		}
	}
	return holes
}
