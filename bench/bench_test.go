package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test's own program be a contender, as the bench's is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == carryWord {
		if err := carry(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func testServer(t *testing.T) *server {
	t.Helper()
	at := os.Getenv("SETTLE_TEST_POSTGRES")
	if at == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("SETTLE_TEST_POSTGRES is not set: export it with the URL that `scripts/services up postgres` prints")
		}
		t.Skip("SKIPPED, NOTHING OF THIS IS PROVED: SETTLE_TEST_POSTGRES is not set; `scripts/services up postgres` prints its value")
	}
	s, err := connect(context.Background(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.drop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestEveryRelayPublishesAllEvents(t *testing.T) {
	s, dir := testServer(t), t.TempDir()
	for _, c := range contenders() {
		out, err := trial{contender: c, events: 300, warm: 100, keys: 100, perTransaction: 10}.run(t.Context(), s, dir)
		if err != nil {
			t.Fatal(err)
		}
		if out.Stopped || out.Lost != 0 || out.Twice != 0 || out.Rate <= 0 || math.IsInf(out.Rate, 0) {
			t.Errorf("%s: %+v", c.name, out)
		}
	}
}

func TestWhatHoldsThemUpIsSeen(t *testing.T) {
	s, dir := testServer(t), t.TempDir()
	for _, c := range []struct {
		name          string
		stopped, lost bool
	}{{"settle", false, false}, {"classic", false, false}, {"watermill1000", true, false}, {rawName, false, true}} {
		contender, _ := find(c.name)
		out, err := trial{contender: contender, events: 300, warm: 100, keys: 100, perTransaction: 10, hold: holdWrite}.run(t.Context(), s, dir)
		if err != nil {
			t.Fatal(err)
		}
		if out.Stopped != c.stopped || out.Lost > 0 != c.lost || math.IsNaN(out.Dead) {
			t.Errorf("%s with an open transaction: %+v; want stopped %t, lost %t", c.name, out, c.stopped, c.lost)
		}
	}
}

func TestAKilledRelayLosesNothing(t *testing.T) {
	s, dir := testServer(t), t.TempDir()
	for _, name := range []string{"settle", "classic", "replication"} {
		c, _ := find(name)
		out, err := trial{contender: c, events: 3000, warm: 1000, keys: 100, perTransaction: 100, kill: true}.run(t.Context(), s, dir)
		if err != nil {
			t.Fatal(err)
		}
		if out.Stopped || out.Lost != 0 {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

func TestEveryConsumerMakesEachEffectOnce(t *testing.T) {
	s := testServer(t)
	for _, a := range appliers() {
		out, err := application{applier: a, events: 300, keys: 50, commitDelay: time.Millisecond}.run(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		forgets := a.name == "watermill"
		if out.Wrong != 0 || out.Twice > 0 != forgets || out.Rate <= 0 {
			t.Errorf("%s: %+v", a.name, out)
		}
	}
}

func TestTheBoardCountsWhatWasLostAndSentTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "board")
	b, err := mapBoard(path, 5)
	if err != nil {
		t.Fatal(err)
	}
	b.head.Expected, b.head.Warm = 3, 1
	out := &sink{board: b, keys: 5, poisoned: 4}
	for _, n := range []int{0, 1, 1, 3} {
		if err := out.publish(eventID(n), payload(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.publish(eventID(4), payload(4)); err != errRefused {
		t.Errorf("the poisoned key was answered %v", err)
	}
	if out.publish(eventID(5), payload(5)) == nil || out.publish("42", payload(4)) == nil || out.publish(eventID(2), nil) == nil {
		t.Error("an event that is none of ours, or is empty, was taken")
	}
	other, err := mapBoard(path, 5) // as the other process sees it
	if err != nil {
		t.Fatal(err)
	}
	if got := other.head.Published.Load(); got != 3 || other.twice() != 1 {
		t.Errorf("published %d, twice %d; want 3 and 1", got, other.twice())
	}
	if other.head.WarmAt.Load() == 0 || other.head.DoneAt.Load() < other.head.WarmAt.Load() {
		t.Error("the times of warm-up and end are not there")
	}
	if err := other.close(); err != nil {
		t.Error(err)
	}
	if err := b.close(); err != nil {
		t.Error(err)
	}
}

func TestNumbersOfEventsAreFoundInTheirIDs(t *testing.T) {
	for _, n := range []int{0, 1, 255, 1 << 30} {
		if got, err := eventNumber(eventID(n)); err != nil || got != n {
			t.Errorf("%d became %d, %v", n, got, err)
		}
		if len(payload(n)) != payloadBytes {
			t.Errorf("payload of %d has %d bytes", n, len(payload(n)))
		}
	}
}

func TestAMissedGoalIsCalledMissed(t *testing.T) {
	r := report{Relays: []relayRow{
		{Name: rawName, Title: "raw", Rate: 100, LeanRatio: 0.69, P50: 1},
		{Name: "lean", Title: "lean", Rate: 69, WAL: 5.1},
		{Name: "settle", Title: "settle", Rate: 69, P50: 2, Poisoned: figure{Measured: true, Ratio: 0.96}, Idle: figure{Measured: true, Ratio: 1, Lost: 1}, Xmin: figure{Measured: true}},
	}}
	r.judge()
	var got []string
	for _, g := range r.Goals {
		got = append(got, g.Verdict)
	}
	if want := "MISSED MISSED met MISSED met reported reported"; strings.Join(got, " ") != want {
		t.Errorf("verdicts %v, want %s", got, want)
	}
}

func TestTablesShowFigures(t *testing.T) {
	r := report{Relays: []relayRow{{Name: rawName, Title: "raw limit", Rate: 123456, RatioToRaw: 1}}, Consumers: []consumerRow{{Title: "c", Rate: 10}}, Producers: []producerRow{{Title: "p", Rate: 10}}}
	var text, markdown bytes.Buffer
	for _, table := range r.tables() {
		if err := table.text(&text); err != nil {
			t.Fatal(err)
		}
		if err := table.markdown(&markdown); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range []*bytes.Buffer{&text, &markdown} {
		if s := b.String(); !strings.Contains(s, "123,456") || !strings.Contains(s, strings.Repeat(bar, 30)) {
			t.Errorf("no figure or no bar in:\n%s", s)
		}
	}
}

func TestADocumentKeepsWhatPeopleHaveWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "benchmarks.md")
	r := report{Relays: []relayRow{{Name: rawName, Title: "raw limit", Rate: 123456}}}
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	first, _ := os.ReadFile(path)
	remarks := kept + "\nThe raw limit is no relay.\n"
	if err := os.WriteFile(path, append(first, remarks...), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Relays[0].Rate = 654321
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	second, _ := os.ReadFile(path)
	if s := string(second); !strings.HasSuffix(s, remarks) || !strings.Contains(s, "654,321") || strings.Contains(s, "123,456") || strings.Count(s, kept) != 1 {
		t.Errorf("the document became:\n%s", s)
	}
}

func TestThePasswordIsNotInTheDocument(t *testing.T) {
	for _, args := range [][]string{{"--db", "postgres://u:secret@h/d", "--rounds", "1"}, {"-db=postgres://u:secret@h/d", "--rounds", "1"}} {
		if got := command(args); got != "go run -C bench . --rounds 1" {
			t.Errorf("%v is shown as %q", args, got)
		}
	}
}

func TestBars(t *testing.T) {
	for v, want := range map[float64]string{0: "", 100: "██", 50: "█", 75: "█▌", 0.1: "▏"} {
		if got := bars(v, 100, 2); got != want {
			t.Errorf("%g: %q, want %q", v, got, want)
		}
	}
	if median([]float64{3, 1, 2}) != 2 || median([]float64{4, 1}) != 2.5 || medianRatio([]float64{1, 9, 8}, []float64{2, 3, 0, 5}) != 1.75 || quantile([]float64{1, 2, 3, 4}, 0.5) != 3 || count(1234567) != "1,234,567" {
		t.Error("a median, a quantile or a number with commas is wrong")
	}
}
