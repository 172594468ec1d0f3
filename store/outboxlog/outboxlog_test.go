package outboxlog_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

func TestReadersComeBackAsTheyWerePacked(t *testing.T) {
	want := []relay.Reader{
		{Cursor: 9, CursorEvent: "e\"9", Open: []int64{1, 2, 3, 7}},
		{Destination: "slow", Cursor: 4, CursorEvent: "d"},
	}
	for text, packed := range map[string]string{
		`[{"cursor":9,"cursor_event":"e\"9","open":[[1,3],7]},{"destination":"slow","cursor":4,"cursor_event":"d","open":[]}]`:     outboxlog.PackReaders(want),
		`[{"cursor":9,"cursor_event":"e\"9","open":[[1,3],[7,7]]},{"destination":"slow","cursor":4,"cursor_event":"d","open":[]}]`: outboxlog.PackReadersInRuns(want),
	} {
		if packed != text {
			t.Errorf("packed as %s, want %s", packed, text)
		}
		if got, err := outboxlog.UnpackReaders(packed); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("came back as %+v, %v", got, err)
		}
	}
	if packed := outboxlog.PackReaders(nil); packed != "[]" {
		t.Errorf("no reader is packed as %s", packed)
	}
	for _, damaged := range []string{`[{"open":["x"]}]`, `[{"open":[[1,"x"]]}]`, `{}`} {
		if got, err := outboxlog.UnpackReaders(damaged); err == nil {
			t.Errorf("%s is read as %+v", damaged, got)
		}
	}
	if _, err := outboxlog.UnpackReaders(`[{"cursor":1,"open":[[1,9000000000]]}]`); err == nil {
		t.Error("a checkpoint that would fill the memory is read")
	}
}

func TestCoordinatesAreGroupedWhereOffsetsFollow(t *testing.T) {
	now := time.UnixMicro(1_000_000)
	sent := func(id int64, topic string, partition int, offset int64, after time.Duration) relay.Sent {
		return relay.Sent{ID: id, Destination: "d", At: settle.Coordinates{Topic: topic, Partition: partition, Offset: offset}, SentAt: now.Add(after)}
	}
	for want, in := range map[string][]relay.Sent{
		`[["t",0,5,0,[2,0,1]]]`:               {sent(12, "t", 0, 5, 0), sent(10, "t", 0, 6, 0), sent(11, "t", 0, 7, 0)},
		`[["t",0,5,0,[0]],["t",1,6,0,[1]]]`:   {sent(10, "t", 0, 5, 0), sent(11, "t", 1, 6, 0)},
		`[["t",0,5,-7,[0]],["t",0,6,9,[1]]]`:  {sent(10, "t", 0, 5, -7*time.Microsecond), sent(11, "t", 0, 6, 9*time.Microsecond)},
		`[["a",0,6,0,[1]],["d",0,5,0,[0]]]`:   {sent(10, "", 0, 5, 0), sent(11, "a", 0, 6, 0)},
		`[["t",0,5,0,[0]],["t\"",0,6,0,[1]]]`: {sent(10, "t", 0, 5, 0), sent(11, "t\"", 0, 6, 0)},
		`[["t",0,5,0,[1]],["t",0,7,0,[0]]]`:   {sent(10, "t", 0, 7, 0), sent(11, "t", 0, 5, 0)},
	} {
		low, high, got := outboxlog.PackSent(in, now)
		if got != want || low != 10 || high < 11 {
			t.Errorf("%d to %d: %s, want %s", low, high, got, want)
		}
	}
}

func TestCoordinatesAreGroupedByTopicToo(t *testing.T) {
	now := time.UnixMicro(1_000_000)
	at := func(id int64, topic string, partition int, offset int64) relay.Sent {
		return relay.Sent{ID: id, Destination: "d", At: settle.Coordinates{Topic: topic, Partition: partition, Offset: offset}, SentAt: now}
	}
	in := []relay.Sent{at(14, "", 0, 1), at(10, "t", 0, 5), at(12, "t", 0, 6), at(11, "t", 1, 7), at(13, "t", 0, 9)}
	low, high, got := outboxlog.PackSentByTopic(in, now)
	if want := `{"d":[[0,1,0,[4]]],"t":[[0,5,0,[0,2]],[0,9,0,[3]],[1,7,0,[1]]]}`; got != want || low != 10 || high != 14 {
		t.Errorf("%d to %d: %s, want %s", low, high, got, want)
	}
}

// ids are those of runs, which must be sorted, apart and not empty.
func ids(t *testing.T, runs []outboxlog.Run) map[int64]bool {
	t.Helper()
	all := map[int64]bool{}
	last := int64(-1)
	for i, r := range runs {
		if r[1] < r[0] || i > 0 && r[0] <= last {
			t.Fatalf("runs %v are not sorted", runs)
		}
		for id := r[0]; id <= r[1]; id++ {
			all[id] = true
		}
		last = r[1]
	}
	return all
}

func TestMissingIDsAreASet(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var m outboxlog.Missing
		want := map[int64]bool{}
		for range 40 {
			first := r.Int64N(60)
			last := first + r.Int64N(8) - 1
			if r.IntN(2) == 0 {
				m.Remove(first)
				delete(want, first)
				continue
			}
			m.Add(first, last)
			for id := first; id <= last; id++ {
				want[id] = true
			}
		}
		if got := ids(t, m.Runs()); !reflect.DeepEqual(got, want) {
			t.Fatalf("the set has %v, want %v", m.Runs(), want)
		}
		asked := []outboxlog.Run{{3, 9}, {11, 11}, {20, 45}, {50, 70}}
		common := ids(t, m.Of(asked))
		for id := range ids(t, asked) {
			if common[id] != want[id] {
				t.Fatalf("of %v there are %v in %v", asked, m.Of(asked), m.Runs())
			}
		}
	}
}

func TestTornRunsAreWhatIsLeft(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var all outboxlog.Missing
		for range 6 {
			first := r.Int64N(60)
			all.Add(first, first+r.Int64N(6))
		}
		var out []int64
		for range 10 {
			out = append(out, r.Int64N(70))
		}
		slices.Sort(out)
		want := ids(t, all.Runs())
		for _, id := range out {
			delete(want, id)
		}
		if got := ids(t, outboxlog.Tear(all.Runs(), slices.Compact(out))); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v without %v is %v", all.Runs(), out, got)
		}
	}
}

func TestRunsAndSplitKeepEachID(t *testing.T) {
	in := []int64{1, 2, 3, 7, 9, 10, 11, 12, 13, 20}
	runs := outboxlog.Runs(in)
	if got := fmt.Sprint(runs); got != "[[1 3] [7 7] [9 13] [20 20]]" {
		t.Errorf("runs are %s", got)
	}
	single, ranges := outboxlog.Split(runs)
	if got := fmt.Sprint(single, ranges); got != "[1 2 3 7 20] [[9 13]]" {
		t.Errorf("split into %s", got)
	}
	if got := fmt.Sprint(outboxlog.Below(in, 9), outboxlog.Below(in, 100)); got != fmt.Sprint(in[:5], in) {
		t.Errorf("below 9 and 100 are %s", got)
	}
}

func TestAPageTakesItsFirstRowAndThenWhatFits(t *testing.T) {
	for name, c := range map[string]struct {
		rows, bytes int
		sizes       []int
		want        int
	}{
		"all":               {10, 100, []int{10, 20, 30}, 3},
		"rows":              {2, 100, []int{1, 1, 1}, 2},
		"bytes":             {10, 25, []int{10, 10, 10}, 2},
		"a large first row": {10, 25, []int{1000, 1}, 1},
		"no room":           {0, 0, []int{5, 5}, 1},
	} {
		b, n := outboxlog.Budget{Rows: c.rows, Bytes: c.bytes}, 0
		if b.Limit() != c.rows+1 {
			t.Errorf("%s: reads %d rows", name, b.Limit())
		}
		for _, size := range c.sizes {
			if !b.Takes(size) {
				break
			}
			n++
		}
		if n != c.want {
			t.Errorf("%s: takes %d rows, want %d", name, n, c.want)
		}
	}
}

func TestWhoMayLeadAndHowManyHaveDied(t *testing.T) {
	now := time.Unix(1000, 0)
	runs := outboxlog.Leader{Owner: "a", Epoch: 3, Deaths: 2, Taken: now.Add(-5 * time.Second), Expires: now.Add(time.Second), Now: now}
	out, long, clean := runs, runs, runs
	out.Expires, out.Taken = now, now.Add(-time.Second)
	long.Expires, long.Taken = now, now.Add(-time.Hour)
	clean.Clean = true
	for name, c := range map[string]struct {
		l          outboxlog.Leader
		free, leap bool
		deaths     int
	}{
		"a new table":      {outboxlog.Leader{}, true, false, 0},
		"one that leads":   {runs, false, false, 3},
		"one that ran out": {out, true, false, 3},
		"one of long life": {long, true, false, 1},
		"a clean end":      {clean, true, false, 0},
	} {
		if c.l.Free("b") != c.free || c.l.Leapt(time.Second) != c.leap || c.l.SuccessorDeaths(time.Second) != c.deaths {
			t.Errorf("%s: free %v, leapt %v, deaths %d", name, c.l.Free("b"), c.l.Leapt(time.Second), c.l.SuccessorDeaths(time.Second))
		}
	}
	runs.Expires = now.Add(time.Hour)
	if !runs.Free("a") || runs.Free("b") || !runs.Leapt(time.Second) {
		t.Error("a lease of before the clock was set back is not noticed, or its owner may not have it")
	}
}
