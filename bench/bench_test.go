package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test's own program be a contender, as the bench's is.
func TestMain(m *testing.M) {
	words := map[string]func([]string) error{carryWord: carry, turnWord: takeTurn}
	if len(os.Args) > 1 && words[os.Args[1]] != nil {
		if err := words[os.Args[1]](os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// onEach runs a test on a server of each engine.
func onEach(t *testing.T, test func(t *testing.T, e engine, s server)) {
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			at := os.Getenv(e.env)
			if at == "" {
				if os.Getenv("CI") != "" {
					t.Fatalf("%s is not set: export it with the URL that `scripts/services up %s` prints", e.env, e.service)
				}
				t.Skipf("SKIPPED, NOTHING OF THIS IS PROVED: %s is not set; `scripts/services up %s` prints its value", e.env, e.service)
			}
			s, err := e.connect(context.Background(), at)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.close(); err != nil {
					t.Error(err)
				}
			})
			test(t, e, s)
		})
	}
}

func TestEveryRelayPublishesAllEvents(t *testing.T) {
	onEach(t, func(t *testing.T, e engine, s server) {
		for _, c := range e.contenders {
			out, err := trial{engine: e, contender: c, events: 300, warm: 100, keys: 100, perTransaction: 10}.run(t.Context(), s, t.TempDir())
			if err != nil {
				t.Fatal(c.name, err)
			}
			if out.Stopped || out.Lost != 0 || out.Twice != 0 || out.Rate <= 0 || math.IsInf(out.Rate, 0) {
				t.Errorf("%s: %+v", c.name, out)
			}
		}
	})
}

func TestWhatHoldsThemUpIsSeen(t *testing.T) {
	onEach(t, func(t *testing.T, e engine, s server) {
		for _, c := range []struct {
			name          string
			stopped, lost bool
		}{{"settle", false, false}, {"classic", false, false}, {"watermill1000", true, false}, {rawName, false, true}} {
			contender, _ := e.contender(c.name)
			out, err := trial{engine: e, contender: contender, events: 300, warm: 100, keys: 100, perTransaction: 10, hold: holdWrite}.run(t.Context(), s, t.TempDir())
			if err != nil {
				t.Fatal(c.name, err)
			}
			if out.Stopped != c.stopped || out.Lost > 0 != c.lost || math.IsNaN(out.Old) {
				t.Errorf("%s with an open transaction: %+v; want stopped %t, lost %t", c.name, out, c.stopped, c.lost)
			}
		}
	})
}

func TestRowVersionsAreCounted(t *testing.T) {
	onEach(t, func(t *testing.T, e engine, s server) {
		for name, want := range map[string]float64{"settle": 0, "classic": 1} {
			c, _ := e.contender(name)
			out, err := trial{engine: e, contender: c, events: 2000, warm: 1000, keys: 100, perTransaction: 100, hold: holdSnapshot}.run(t.Context(), s, t.TempDir())
			if err != nil {
				t.Fatal(name, err)
			}
			if out.OldEvents >= 0 && out.OldEvents != want || out.Log <= 0 {
				t.Errorf("%s leaves %g versions of each event behind, want %g; %g bytes of log", name, out.OldEvents, want, out.Log)
			}
		}
	})
}

func TestAKilledRelayLosesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, e engine, s server) {
		for _, name := range []string{"settle", "classic", "replication"} {
			c, found := e.contender(name)
			if !found {
				continue
			}
			out, err := trial{engine: e, contender: c, events: 3000, warm: 1000, keys: 100, perTransaction: 100, kill: true}.run(t.Context(), s, t.TempDir())
			if err != nil {
				t.Fatal(name, err)
			}
			if out.Stopped || out.Lost != 0 {
				t.Errorf("%s: %+v", name, out)
			}
		}
	})
}

func TestWhatProducersStoreBesideARelayIsPublished(t *testing.T) {
	onEach(t, func(t *testing.T, e engine, s server) {
		for _, name := range []string{"settle", "watermill1000"} {
			c, _ := e.contender(name)
			out, err := trial{engine: e, contender: c, keys: 100}.workBeside(t.Context(), s, t.TempDir(), 2, 50*time.Millisecond)
			if err != nil {
				t.Fatal(name, err)
			}
			if row := out.row(); len(out.with) != 2 || len(out.without) != 2 || row.Ratio <= 0 || row.P99 < row.P50 || row.Carried <= 0 {
				t.Errorf("%s: %+v", name, row)
			}
		}
	})
}

func TestEveryConsumerMakesEachEffectOnce(t *testing.T) {
	onEach(t, func(t *testing.T, e engine, s server) {
		for _, a := range e.appliers {
			out, err := application{applier: a, events: 300, keys: 50, commitDelay: time.Millisecond}.run(t.Context(), s, e.shop)
			if err != nil {
				t.Fatal(a.name, err)
			}
			forgets := a.name == "watermill"
			if out.Wrong != 0 || out.Twice > 0 != forgets || out.Rate <= 0 {
				t.Errorf("%s: %+v", a.name, out)
			}
		}
	})
}

func TestAllWaysAreOnEveryDatabaseOrOnlyOnOne(t *testing.T) {
	titles := map[string]string{}
	for _, e := range engines() {
		for _, c := range e.contenders {
			if was, there := titles[c.name]; there && was != c.title {
				t.Errorf("%s is called %q and %q", c.name, was, c.title)
			}
			titles[c.name] = c.title
		}
		for _, a := range e.aims.lean {
			if _, found := e.contender(a.than); !found {
				t.Errorf("a goal on %s compares with %s, which is not measured there", e.name, a.than)
			}
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
	p := part{Relays: []relayRow{
		{Name: rawName, Title: "raw", Rate: 100, LeanRatio: 0.69, P50: 1},
		{Name: "lean", Title: "lean", Rate: 69, Log: 5.1, Beside: besideRow{Measured: true, Ratio: 0.91}},
		{Name: "settle", Title: "settle", Rate: 69, P50: 2, Poisoned: figure{Measured: true, Ratio: 0.96}, Idle: figure{Measured: true, Ratio: 1, Lost: 1}, Snapshot: figure{Measured: true}},
	}, Producers: []producerRow{{Name: "none", Than: "none"}, {Name: "default", Than: "none", Ratio: 0.95, SlowRatio: 0.8}}}
	p.judge(aims{lean: []aim{{rawName, 0.7}}, logBytes: 5, producer: 0.9})
	var got []string
	for _, g := range p.Goals {
		got = append(got, g.Verdict)
	}
	if want := "MISSED MISSED met MISSED met reported reported reported met MISSED"; strings.Join(got, " ") != want {
		t.Errorf("verdicts %v, want %s", got, want)
	}
}

func shown(names ...string) report {
	var r report
	for _, name := range names {
		r.Parts = append(r.Parts, part{Database: database{Name: name, Version: "1"}, Relays: []relayRow{{Name: rawName, Title: "raw limit", Rate: 123456, RatioToRaw: 1, Beside: besideRow{Measured: true, Ratio: 1}}},
			Consumers: []consumerRow{{Title: "c", Rate: 10}}, Producers: []producerRow{{Title: "p", Rate: 10}}})
	}
	return r
}

func TestTablesShowFiguresOfEachDatabase(t *testing.T) {
	for _, names := range [][]string{{"One"}, {"One", "Other"}} {
		r := shown(names...)
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
			s := b.String()
			if strings.Count(s, "123,456") != len(names) || !strings.Contains(s, strings.Repeat(bar, 30)) {
				t.Errorf("%v: no figure or no bar in:\n%s", names, s)
			}
			if blocks := strings.Contains(s, "Other 1"); blocks != (len(names) == 2) || strings.Contains(s, "One 1") != blocks {
				t.Errorf("%v: want a block for each of several databases in:\n%s", names, s)
			}
		}
	}
}

func TestADocumentKeepsWhatPeopleHaveWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "benchmarks.md")
	r := shown("One")
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	first, _ := os.ReadFile(path)
	remarks := kept + "\nThe raw limit is no relay.\n"
	if err := os.WriteFile(path, append(first, remarks...), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Parts[0].Relays[0].Rate = 654321
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	second, _ := os.ReadFile(path)
	if s := string(second); !strings.HasSuffix(s, remarks) || !strings.Contains(s, "654,321") || strings.Contains(s, "123,456") || strings.Count(s, kept) != 1 {
		t.Errorf("the document became:\n%s", s)
	}
}

func TestADocumentKeepsWhatOtherRunsHaveMeasured(t *testing.T) {
	path := filepath.Join(t.TempDir(), "benchmarks.md")
	first := shown("PostgreSQL", "MariaDB")
	if err := first.write(path); err != nil {
		t.Fatal(err)
	}
	again := shown("MariaDB")
	again.Parts[0].Relays[0].Rate = 654321
	if err := again.write(path); err != nil {
		t.Fatal(err)
	}
	broker := report{Brokers: []brokerPart{{Name: "kafka", Server: "Kafka 4, one node", Publish: []wayRow{{Title: "raw client", Rates: []float64{700, 777777, 800000}, Rate: 777777, Ratio: 1}}}}}
	if err := broker.write(path); err != nil {
		t.Fatal(err)
	}
	document, _ := os.ReadFile(path)
	for part, want := range map[string]int{"123,456": 2, "654,321": 2, "777,777": 1, "700 – 800,000": 1, "- PostgreSQL 1": 1, "- MariaDB 1": 1, "- Kafka 4": 1} {
		if got := strings.Count(string(document), part); got != want {
			t.Errorf("%q is there %d times, want %d, in:\n%s", part, got, want, document)
		}
	}
}

func TestThePasswordIsNotInTheDocument(t *testing.T) {
	for _, args := range [][]string{{"--db", "postgres://u:secret@h/d", "--rounds", "1"}, {"-db=mysql,postgres://u:secret@h/d", "--rounds", "1"}, {"--broker", "rabbitmq://u:secret@h/", "--rounds", "1"}} {
		if got := command(args); got != "go run -C bench . --rounds 1" {
			t.Errorf("%v is shown as %q", args, got)
		}
	}
	if got := command([]string{"--db", "mysql"}); got != "go run -C bench . --db mysql" {
		t.Errorf("a name is shown as %q", got)
	}
}

func TestDatabasesAreNamedOrGivenAsURLs(t *testing.T) {
	t.Setenv("SETTLE_TEST_POSTGRES", "postgres://a/b")
	t.Setenv("SETTLE_TEST_MYSQL", "")
	for db, want := range map[string]string{"": "postgres", "postgres": "postgres", "mariadb://h/d,postgres": "mysql postgres", "mysql": "", "oracle": ""} {
		all, err := addresses(db)
		var names []string
		for _, a := range all {
			names = append(names, a.engine.name)
		}
		if got := strings.Join(names, " "); got != want || err != nil != (want == "") {
			t.Errorf("--db %q means %q, %v; want %q", db, got, err, want)
		}
	}
}

func TestBrokersAreNamedOrGivenAsURLs(t *testing.T) {
	t.Setenv("SETTLE_TEST_POSTGRES", "postgres://a/b")
	t.Setenv("SETTLE_TEST_MYSQL", "mysql://a/b")
	t.Setenv("SETTLE_TEST_KAFKA", "kafka://h")
	t.Setenv("SETTLE_TEST_RABBITMQ", "")
	for args, want := range map[string]string{"--broker kafka": "kafka", "--broker rabbitmq://h,kafka --db postgres://c/d": "rabbitmq kafka", "--broker rabbitmq": "", "--broker pulsar": "", "--broker kafka --db mysql": "", "--broker kafka --db postgres,mysql": ""} {
		cfg, err := parse(strings.Fields(args), io.Discard)
		var names []string
		for _, a := range cfg.brokers {
			names = append(names, a.target.name)
		}
		if got := strings.Join(names, " "); err != nil != (want == "") || err == nil && got != want {
			t.Errorf("%s means %q, %v; want %q", args, got, err, want)
		}
	}
}

func TestAMeterNoticesWhatIsMissingTwiceOrOutOfOrder(t *testing.T) {
	m := newMeter(4, 8, 1, 2)
	for _, n := range []int{2, 0, 0, 1} { // 2 and 0 are of one key
		if err := m.count(eventID(n)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.passage(); err == nil {
		t.Error("an event is missing, and nobody says so")
	}
	if m.count(eventID(8)) == nil || m.count("42") == nil {
		t.Error("an event that is none of ours was taken")
	}
	if err := m.count(eventID(7)); err != nil {
		t.Fatal(err)
	}
	if p, err := m.passage(); err != nil || p.Twice != 1 || p.Disorder != 1 || p.Rate <= 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestABrokersGoalsAreJudged(t *testing.T) {
	p := brokerPart{Name: "kafka", Publish: []wayRow{{Name: rawName, Rates: []float64{90, 100, 300}}, {Name: "settle", Rates: []float64{95, 89, 80}}},
		Read: []wayRow{{Name: rawName, Rates: []float64{100}}, {Name: "settle", Rates: []float64{80}}},
		Drain: []drainRow{{Name: "kafka-" + rawName, p50s: []float64{1}}, {Name: "kafka-lean", Rates: []float64{100}}, {Name: "kafka-settle", p50s: []float64{2.6}},
			{Name: "kafka-replication", Rates: []float64{100}}, {Name: "kafka-watermill", Rates: []float64{10.1}}}}
	p.summarise()
	p.judge()
	var got []string
	for _, g := range p.Goals {
		got = append(got, g.Verdict)
	}
	if want := "MISSED met met MISSED MISSED"; strings.Join(got, " ") != want {
		t.Errorf("verdicts %v, want %s", got, want)
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
