package postgres

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
)

// partition is a table that holds the rows of a range of ids: from is the first,
// until the first behind them. The lowest partition has no first id and the
// highest no end, so each id has a place: no insert fails for want of one.
type partition struct {
	name        string
	from, until int64
}

// Ends of the lowest and the highest partition.
const (
	noFirst = math.MinInt64
	noEnd   = math.MaxInt64
)

func (p partition) lowest() bool  { return p.from == noFirst }
func (p partition) highest() bool { return p.until == noEnd }

// withRange gives a partition the name of its range.
func withRange(from, until int64) partition {
	p := partition{from: from, until: until}
	switch {
	case p.lowest():
		p.name = fmt.Sprint("t_outbox_event_until_", until)
	case p.highest():
		p.name = fmt.Sprint("t_outbox_event_beyond_", from)
	default:
		p.name = fmt.Sprint("t_outbox_event_from_", from)
	}
	return p
}

var rangeOfIDs = regexp.MustCompile(`^FOR VALUES FROM \((MINVALUE|'?-?\d+'?)\) TO \((MAXVALUE|'?-?\d+'?)\)$`)

// partitionOf reads a range as the catalog writes it.
func partitionOf(name, bound string) (partition, bool) {
	p := partition{name: name, from: noFirst, until: noEnd}
	m := rangeOfIDs.FindStringSubmatch(bound)
	if m == nil {
		return p, false
	}
	for i, into := range []*int64{&p.from, &p.until} {
		if m[i+1] == "MINVALUE" || m[i+1] == "MAXVALUE" {
			continue
		}
		n, err := strconv.ParseInt(trimQuotes(m[i+1]), 10, 64)
		if err != nil {
			return p, false
		}
		*into = n
	}
	return p, true
}

func trimQuotes(s string) string {
	if len(s) > 1 && s[0] == '\'' {
		return s[1 : len(s)-1]
	}
	return s
}

// partitions are those of one outbox, in the order of their ids.
type partitions []partition

// whole reports whether they are as this program makes them: without a hole
// from no first id to no end, and at least one between.
func (all partitions) whole() bool {
	slices.SortFunc(all, func(a, b partition) int { return cmp.Compare(a.from, b.from) })
	if len(all) < 3 || !all[0].lowest() || !all[len(all)-1].highest() {
		return false
	}
	for i := 1; i < len(all); i++ {
		if all[i].from != all[i-1].until {
			return false
		}
	}
	return true
}

// width is how many ids a new partition takes: as many as the narrowest. One
// that ids have overtaken is wider.
func (all partitions) width() int64 {
	w := int64(math.MaxInt64)
	for _, p := range all[1 : len(all)-1] {
		w = min(w, p.until-p.from)
	}
	return w
}

// partitionsAhead is how many partitions are kept above the ids given so far.
// When they are used up ids go to the highest, which has no end.
const partitionsAhead = 8

// retired returns the partition that may be done as a whole: the lowest one
// that has a first id, when every reader has read it and the sequence has passed
// it. One more stays, to tell the width by.
func (all partitions) retired(read, given int64) (partition, bool) {
	p := all[1]
	return p, len(all) > 3 && p.until-1 <= min(read, given)
}

// extension is what makes partitions ahead: the highest gets an end, and others
// come behind it.
type extension struct {
	// sealed is the highest with its end, under its new name; was is its present one.
	was, sealed partition
	added       partitions
}

// ahead is how many partitions with an end are above the ids given so far.
func (all partitions) ahead(given int64) (n int) {
	for _, p := range all[1 : len(all)-1] {
		if p.from > given {
			n++
		}
	}
	return n
}

// extended returns what is to be made, if few are left ahead.
func (all partitions) extended(given int64) (e extension, due bool) {
	ahead := all.ahead(given)
	if ahead > partitionsAhead/2 {
		return e, false
	}
	w := all.width()
	e.was = all[len(all)-1]
	until := e.was.from + w
	if given >= until {
		until = (given/w + 1) * w
	}
	e.sealed = withRange(e.was.from, until)
	if e.sealed.from > given {
		ahead++
	}
	for ; ahead < partitionsAhead; ahead++ {
		e.added = append(e.added, withRange(until, until+w))
		until += w
	}
	e.added = append(e.added, withRange(until, noEnd))
	return e, true
}

// partitionedAt returns the partitions of an outbox that has given ids up to one and
// is divided now: what is there is below the first that has a width.
func partitionedAt(given, width int64) partitions {
	from := (given/width + 1) * width
	all := partitions{withRange(noFirst, from)}
	for range partitionsAhead {
		all = append(all, withRange(from, from+width))
		from += width
	}
	return append(all, withRange(from, noEnd))
}
