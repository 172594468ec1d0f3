package outboxlog

import (
	"fmt"
	"testing"

	"github.com/settlemq/settle/relay"
)

func TestARowLeavesItsSideTableForThoseThatAreDoneWithIt(t *testing.T) {
	share := &relay.Share{Owed: []string{"a", "b", "c"}}
	f := relay.Flush{
		Sent: []relay.Sent{{ID: 7, From: relay.FromExtra, Destination: "b", Share: share}, {ID: 8, From: relay.FromExtra, Destination: "b"}, {ID: 9, From: relay.FromLog, Share: share}},
		Park: []relay.Park{{ID: 7, From: relay.FromExtra, Destination: "a", Share: share}, {ID: 6, From: relay.FromParked, Share: share}},
		Skip: []relay.Skip{{ID: 7, From: relay.FromDelayed, Destination: "c", Share: share}},
	}
	all := LeavingOf(&f)
	if len(all) != 2 || all[0].From != relay.FromDelayed || all[1].ID != 7 {
		t.Fatalf("leaving are %+v", all)
	}
	for recorded, want := range map[string][]string{"": {"c"}, `["a","b"]`: {}, `["b","d"]`: {"d"}} {
		owed, err := UnpackOwed(recorded)
		if got := all[1].Rest(owed); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("of %q are left %v (%v), want %v", recorded, got, err, want)
		}
	}
}

func TestADelayedRowIsOwedToEachThatItWasDelayedFor(t *testing.T) {
	for _, c := range []struct {
		recorded []string
		there    string
		want     string
	}{{nil, "", `["b"]`}, {nil, "a", `["a","b"]`}, {[]string{"a"}, "a", `["a","b"]`}, {[]string{"b", "a"}, "b", `["b","a"]`}} {
		if got := PackOwed(Joined(c.recorded, c.there, "b")); got != c.want {
			t.Errorf("%+v: owed to %s", c, got)
		}
	}
}

func TestAPositionTellsWhetherEventsMayGoToSeveral(t *testing.T) {
	lists := func(routes ...relay.Route) []relay.Reader {
		return []relay.Reader{{Routing: []relay.Routing{{}, {After: 3, Routes: routes}}}, {Destination: "t"}}
	}
	if HasLists(lists(relay.Route{Broker: "x"})) || HasLists(nil) || !HasLists(lists(relay.Route{Broker: "x"}, relay.Route{Also: true})) {
		t.Error("it is told of one that has none, or not of one that has")
	}
}
