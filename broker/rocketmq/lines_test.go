package rocketmq

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// Every batch that there can be is sent whole, and of each key nothing goes ahead of
// what is not held, whatever is refused.
func TestNothingOfAKeyGoesAheadOfWhatIsNotHeld(t *testing.T) {
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		n, lineCount := 1+rnd.IntN(20), 1+rnd.IntN(4)
		keys, of := make([]string, n), make([]int, n)
		for i := range n {
			keys[i], of[i] = strconv.Itoa(rnd.IntN(4)), rnd.IntN(lineCount+1)-1
		}
		checkLines(t, rnd, newLines(lineCount, of, func(i int) string { return keys[i] }), keys, of, lineCount)
		if t.Failed() {
			t.Fatalf("seed %d: keys %v, lines %v", seed, keys, of)
		}
	}
}

func checkLines(t *testing.T, rnd *rand.Rand, l *lines, keys []string, of []int, lineCount int) {
	t.Helper()
	flying := map[int][]int{}
	alone := map[int]bool{}
	for round := 0; ; round++ {
		if round > 1000 {
			t.Fatal("it does not end")
		}
		for more := true; more; {
			more = false
			for line := range lineCount {
				n := 0
				batch, behind := l.next(line, func(int) bool { n++; return n == 1 || !alone[line] && n <= 5 })
				if len(batch) > 0 {
					checkAhead(t, l, keys, of, line, batch)
					flying[line] = batch
				}
				more = more || len(batch)+len(behind) > 0
			}
		}
		if len(flying) == 0 {
			break
		}
		for line, batch := range flying {
			if rnd.IntN(2) == 0 {
				continue
			}
			delete(flying, line)
			l.free(line)
			if len(batch) > 1 && rnd.IntN(3) == 0 {
				alone[line] = true
				l.again(line, batch)
				continue
			}
			ok := rnd.IntN(4) > 0
			for _, i := range batch {
				l.answered(i, ok)
			}
			if !ok && rnd.IntN(3) == 0 {
				l.rest(line)
			}
		}
	}
	for i, s := range l.state {
		if s != held && s != failed {
			t.Errorf("message %d ends as %d", i, s)
		}
	}
}

// checkAhead checks that all that stands ahead of a message of a batch with its key
// is held, or in the batch before it.
func checkAhead(t *testing.T, l *lines, keys []string, of []int, line int, batch []int) {
	t.Helper()
	for at, i := range batch {
		if of[i] != line {
			t.Errorf("message %d goes by line %d", i, line)
		}
		for j := range i {
			if keys[j] == keys[i] && l.state[j] != held && !slices.Contains(batch[:at], j) {
				t.Errorf("message %d goes ahead of %d of its key", i, j)
			}
		}
	}
}
