package postgres

import (
	"math/big"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// What could not be had is asked for less and less often: each time, inserts may
// wait for swapWait, and all of a partition is read.
const (
	firstPause = 10 * time.Second
	lastPause  = 10 * time.Minute
)

// puttingOff is a change of partitions that somebody was in the way of.
type puttingOff struct {
	pause time.Duration
	until time.Time
}

// putOff asks again later, or with no time at once.
func (l *Log) putOff(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.IsZero() {
		l.swaps = puttingOff{}
		return
	}
	l.swaps.pause = min(max(firstPause, 2*l.swaps.pause), lastPause)
	l.swaps.until = now.Add(l.swaps.pause)
}

func (l *Log) isPutOff(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Before(l.swaps.until)
}

// stateTooLong: a statement has exceeded its time.
const stateTooLong = "57014"

// examining is a partition that may go, as far as its rows were looked at. What
// is done stays done as long as one relay leads on one run of a server; a row that
// may not go yet is taken over, though it may be done meanwhile.
type examining struct {
	of    partition
	epoch int64
	run   pgtype.Timestamptz
	begun time.Time
	// next is the first id that was not looked at.
	next int64
	// rows and sum are of those that were there.
	rows int64
	sum  big.Int
	stay []int64
	// told is how many rows that go were reported.
	told int64
}

func (x *examining) took(rows int64, sum string, stay []int64) {
	x.rows += rows
	var n big.Int
	if _, ok := n.SetString(sum, 10); ok { // a sum of ids is a number
		x.sum.Add(&x.sum, &n)
	}
	x.stay = append(x.stay, stay...)
}

func (x *examining) is(rows int64, sum string) bool { return rows == x.rows && sum == x.sum.String() }

// report returns how many rows that go were not reported before.
func (x *examining) report() int {
	n := x.rows - int64(len(x.stay)) - x.told
	x.told += n
	return int(n)
}

// examined is the partition that is looked at; from its beginning where it is
// another, another epoch or another run of a server has begun, or too much in it
// had to stay long ago.
func (l *Log) examined(p partition, epoch int64) *examining {
	now, run := l.s.now(), l.serverRun()
	if x := l.partition; x == nil || x.of != p || x.epoch != epoch || x.run != run || len(x.stay) > keptRows && now.Sub(x.begun) > lastPause {
		l.partition = &examining{of: p, epoch: epoch, run: run, begun: now, next: p.from}
	}
	return l.partition
}

func (l *Log) examineAnew() { l.partition = nil }
