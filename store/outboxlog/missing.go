package outboxlog

import (
	"slices"

	"github.com/settlemq/settle/relay"
)

// Missing is a set of ids that were passed and not seen, kept as runs. The zero
// value is empty.
type Missing struct{ runs []Run }

// Runs returns the ids, sorted and joined. It is a copy.
func (m *Missing) Runs() []Run { return slices.Clone(m.runs) }

// Begin empties the set and puts in what readers have open, which nobody need
// have seen. It returns up to where ids were passed.
func (m *Missing) Begin(readers []relay.Reader) (top int64) {
	m.runs = nil
	for _, r := range readers {
		top = max(top, r.Cursor)
		for _, open := range Runs(r.Open) {
			m.Add(open[0], open[1])
		}
	}
	return top
}

// Pass puts in what a page has passed without a row, and takes out the ids of
// its rows; ids up to top were passed before. It returns up to where they are
// passed now.
func (m *Missing) Pass(top int64, q relay.PollQuery, p *relay.Page) int64 {
	for _, r := range Runs(q.Holes) {
		m.Add(r[0], r[1])
	}
	prev := max(q.After, top)
	for i := range p.Rows {
		id := p.Rows[i].ID
		if id > prev {
			m.Add(prev+1, id-1)
			prev = id
			continue
		}
		m.Remove(id)
	}
	if p.Complete && q.UpTo > prev {
		m.Add(prev+1, q.UpTo)
		prev = q.UpTo
	}
	return max(top, prev)
}

// Add puts the ids from first to last in; there are none if last is lower.
func (m *Missing) Add(first, last int64) {
	if last < first {
		return
	}
	// The runs that it touches are those from i to k.
	i, _ := slices.BinarySearchFunc(m.runs, first-1, func(r Run, id int64) int { return sign(r[1], id) })
	k := i
	for k < len(m.runs) && m.runs[k][0] <= last+1 {
		first, last = min(first, m.runs[k][0]), max(last, m.runs[k][1])
		k++
	}
	m.runs = slices.Replace(m.runs, i, k, Run{first, last})
}

// Remove takes an id out.
func (m *Missing) Remove(id int64) {
	i, _ := slices.BinarySearchFunc(m.runs, id, func(r Run, id int64) int { return sign(r[1], id) })
	if i == len(m.runs) || m.runs[i][0] > id {
		return
	}
	m.runs = slices.Replace(m.runs, i, i+1, Tear(m.runs[i:i+1], []int64{id})...)
}

func sign(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Of returns those of sorted runs that are in the set.
func (m *Missing) Of(runs []Run) []Run {
	var all []Run
	for i := 0; len(runs) > 0 && i < len(m.runs); {
		low, high := max(runs[0][0], m.runs[i][0]), min(runs[0][1], m.runs[i][1])
		if low <= high {
			all = append(all, Run{low, high})
		}
		if runs[0][1] < m.runs[i][1] {
			runs = runs[1:]
		} else {
			i++
		}
	}
	return all
}
