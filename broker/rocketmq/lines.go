package rocketmq

// lines say which messages of a batch may be sent now. Each queue has a line of
// its own, of which one request is in flight at a time. What is in one request is
// stored in its order or, from some point on, not at all; so messages of one key
// may go together. A message whose key was sent elsewhere before, to another topic,
// waits for the answer to that.
type lines struct {
	// of is the line of each message, before the nearest one of its key that stands
	// ahead of it, or none.
	of, before []int
	waiting    [][]int
	busy       []bool
	state      []sent
}

// sent is how far a message has come.
type sent int

const (
	notYet sent = iota
	inFlight
	held
	failed
)

const none = -1

// newLines takes the number of lines, and the line and the key of each message,
// in order. A message without a line is none's, and has failed.
func newLines(n int, of []int, key func(i int) string) *lines {
	l := &lines{of: of, before: make([]int, len(of)), waiting: make([][]int, n), busy: make([]bool, n), state: make([]sent, len(of))}
	last := make(map[string]int, len(of))
	for i, line := range of {
		l.before[i] = none
		if j, is := last[key(i)]; is {
			l.before[i] = j
		}
		last[key(i)] = i
		if line == none {
			l.state[i] = failed
			continue
		}
		l.waiting[line] = append(l.waiting[line], i)
	}
	return l
}

// next takes from a line that is not busy what may go in one request, as far as
// fits says. behind are those that are not to be sent, because one of their key
// has failed.
func (l *lines) next(line int, fits func(i int) bool) (batch, behind []int) {
	if l.busy[line] {
		return nil, nil
	}
	for len(l.waiting[line]) > 0 {
		i := l.waiting[line][0]
		switch j := l.before[i]; {
		case j != none && l.state[j] == failed:
			l.state[i] = failed
			behind = append(behind, i)
			l.waiting[line] = l.waiting[line][1:]
			continue
		case j != none && l.state[j] != held && (l.of[j] != line || l.state[j] != inFlight), !fits(i):
			l.busy[line] = len(batch) > 0
			return batch, behind
		}
		l.state[i] = inFlight
		batch = append(batch, i)
		l.waiting[line] = l.waiting[line][1:]
	}
	l.busy[line] = len(batch) > 0
	return batch, behind
}

// answered notes what became of a message of a request.
func (l *lines) answered(i int, ok bool) {
	l.state[i] = failed
	if ok {
		l.state[i] = held
	}
}

// free lets the next request of a line go.
func (l *lines) free(line int) { l.busy[line] = false }

// again puts messages of a request back to where they were, to be sent otherwise.
func (l *lines) again(line int, batch []int) {
	for _, i := range batch {
		l.state[i] = notYet
	}
	l.waiting[line] = append(batch, l.waiting[line]...)
}

// rest empties a line.
func (l *lines) rest(line int) []int {
	left := l.waiting[line]
	l.waiting[line] = nil
	for _, i := range left {
		l.state[i] = failed
	}
	return left
}
