package relay

import (
	"reflect"
	"testing"
)

// twoEnds are lanes 0 and 1 of 2; keyIn returns a key of each.
func twoEnds(a, b []Reader) []End {
	return []End{{Lane{Number: 1, Index: 0, Of: 2}, a}, {Lane{Number: 2, Index: 1, Of: 2}, b}}
}

func keyIn(lane int) string {
	for _, k := range []string{"a", "b", "c", "d", "e"} {
		if LaneOf(k, 2) == lane {
			return k
		}
	}
	panic("no key")
}

func TestWhatLanesHandOver(t *testing.T) {
	mine, other := keyIn(0), keyIn(1)
	row := func(key, topic string) Found { return Found{Key: key, Destination: topic} }
	for _, c := range []struct {
		name  string
		ends  []End
		found map[int64]Found
		want  []Reader
	}{
		{"an id that no lane has seen stays open",
			twoEnds([]Reader{{Cursor: 9, Open: []int64{4}}}, []Reader{{Cursor: 9, Open: []int64{4}}}), nil,
			[]Reader{{Cursor: 9, Open: []int64{4}}}},
		{"an id that one lane has given up and another has not stays open",
			twoEnds([]Reader{{Cursor: 9}}, []Reader{{Cursor: 9, Open: []int64{4}}}), nil,
			[]Reader{{Cursor: 9, Open: []int64{4}}}},
		{"a row that its owner has sent is done, whatever the other knows",
			twoEnds([]Reader{{Cursor: 9}}, []Reader{{Cursor: 9, Open: []int64{4}}}), map[int64]Found{4: row(mine, "t")},
			[]Reader{{Cursor: 9}}},
		{"a row that its owner has not seen is open, though the other has seen it",
			twoEnds([]Reader{{Cursor: 9, Open: []int64{4}}}, []Reader{{Cursor: 9}}), map[int64]Found{4: row(mine, "t")},
			[]Reader{{Cursor: 9, Open: []int64{4}}}},
		{"lanes that ended apart are level afterwards, and what one of them has not read is looked at",
			twoEnds([]Reader{{Cursor: 5, CursorEvent: "e5"}}, []Reader{{Cursor: 8, CursorEvent: "e8"}}),
			map[int64]Found{6: row(mine, "t"), 7: row(other, "t"), 8: row(other, "t")},
			[]Reader{{Cursor: 8, CursorEvent: "e8", Open: []int64{6}}}},
		{"a destination that reads for itself goes on doing so",
			twoEnds([]Reader{{Cursor: 9}, {Destination: "slow", Cursor: 3, Open: []int64{2}}}, []Reader{{Cursor: 9}, {Destination: "slow", Cursor: 4}}),
			map[int64]Found{2: row(mine, "slow"), 4: row(mine, "slow")},
			[]Reader{{Cursor: 9}, {Destination: "slow", Cursor: 4, Open: []int64{2, 4}}}},
		{"one that is behind on one lane only keeps its reader, and the other lane's rows are done",
			twoEnds([]Reader{{Cursor: 9}, {Destination: "slow", Cursor: 3}}, []Reader{{Cursor: 9, Open: []int64{8}}}),
			map[int64]Found{4: row(mine, "slow"), 5: row(other, "slow"), 6: row(mine, "fast"), 8: row(other, "slow")},
			[]Reader{{Cursor: 9}, {Destination: "slow", Cursor: 9, Open: []int64{4, 8}}}},
		{"readers that ended far apart begin at the lower",
			twoEnds([]Reader{{Cursor: 7, CursorEvent: "e7", Open: []int64{3}}}, []Reader{{Cursor: 8 + mergeWidth, Open: []int64{9}}}), nil,
			[]Reader{{Cursor: 7, CursorEvent: "e7", Open: []int64{3}}}},
		{"a lane that never read has read nothing",
			twoEnds(nil, []Reader{{Cursor: 2}}), map[int64]Found{1: row(mine, "t"), 2: row(other, "t")},
			[]Reader{{Cursor: 2, Open: []int64{1}}}},
	} {
		for _, id := range Undecided(c.ends) {
			if c.found != nil && id > 100 {
				t.Errorf("%s: id %d is looked at", c.name, id)
			}
		}
		if got := Merge(c.ends, c.found); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n%+v, want\n%+v", c.name, got, c.want)
		}
	}
}

func TestARowWithoutAKeyHasTheOwnerThatItsOwnKeyGivesIt(t *testing.T) {
	ends := twoEnds([]Reader{{Cursor: 5000}}, []Reader{{Cursor: 5000}})
	for id := int64(1); id <= 5000; id++ {
		owner := LaneOf(keyOf(id, ""), 2)
		ends[owner].Readers[0].Open = append(ends[owner].Readers[0].Open, id)
	}
	found := map[int64]Found{}
	for _, id := range Undecided(ends) {
		found[id] = Found{Destination: "t"}
	}
	if got := Merge(ends, found); len(got[0].Open) != 5000 {
		t.Errorf("%d of 5000 rows stay open for their owners", len(got[0].Open))
	}
}
