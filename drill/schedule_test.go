package drill_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/settlemq/settle/drill"
)

func TestAScheduleDependsOnItsSeedAlone(t *testing.T) {
	a := drill.Schedule(7, drill.FaultNames(), 3, 2000)
	if !reflect.DeepEqual(a, drill.Schedule(7, drill.FaultNames(), 3, 2000)) {
		t.Error("one seed gives two schedules")
	}
	if reflect.DeepEqual(a, drill.Schedule(8, drill.FaultNames(), 3, 2000)) {
		t.Error("two seeds give one schedule")
	}
}

func TestEachFaultHappensSoManyTimesInTheMiddleOfTheRunAndNeverTwiceInARow(t *testing.T) {
	for seed := range uint64(200) {
		shots := drill.Schedule(seed, drill.FaultNames(), 3, 300)
		count, last := map[string]int{}, drill.Shot{}
		for _, s := range shots {
			if s.After < 30 || s.After >= 270 || s.After < last.After || s.Fault == last.Fault || s.Nth != count[s.Fault] {
				t.Fatalf("seed %d: %+v after %+v", seed, s, last)
			}
			count[s.Fault]++
			last = s
		}
		for _, name := range drill.FaultNames() {
			if count[name] != 3 {
				t.Fatalf("seed %d: %s %d times", seed, name, count[name])
			}
		}
	}
	if s := drill.Schedule(1, nil, 3, 300); s != nil {
		t.Errorf("no faults, but %v", s)
	}
}

func TestFaultsAreNamedAllNoneOrOneByOne(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"all", drill.FaultNames()},
		{"none", nil},
		{"poison, relay-kill,poison", []string{"relay-kill", "poison"}},
		{"leader-switch,broker-cut", []string{"broker-cut", "leader-switch"}},
	} {
		if got, err := drill.ParseFaults(c.text); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, %v", c.text, got, err)
		}
	}
	for _, text := range []string{"relay-kil", "", "all,none", "relay-kill,all", "relay-kill,"} {
		_, err := drill.ParseFaults(text)
		if err == nil || !strings.Contains(err.Error(), "broker-stop, broker-cut") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
