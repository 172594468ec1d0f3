package sim_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle/internal/sim"
)

var (
	seeds   = flag.Int("seeds", 0, "how many seeds to run; 0: as many as is usual")
	seed    = flag.Uint64("seed", 1, "the first seed")
	lines   = flag.Int("lines", 60, "how many lines of a failed seed's history to print")
	until   = flag.String("until", "", "stop at the first seed that breaks one of these promises, separated by semicolons; else at the third that breaks any")
	history = flag.String("history", "", "file for the whole history of a failed seed")
)

// simulation is a story that is run over many seeds.
type simulation struct {
	test     string
	run      func(seed uint64, keep bool) sim.Result
	usual    int      // how many seeds
	expected []string // places that so many seeds come to
}

var (
	plainRuns  = simulation{"TestSimulation", sim.Run, 2000, sim.Expected}
	routedRuns = simulation{"TestRoutedSimulation", sim.RunRouted, 400, sim.ExpectedOfRoutes()}
	listRuns   = simulation{"TestSeveralBrokersSimulation", sim.RunFanned, 200, sim.ExpectedOfLists()}
	shopRuns   = simulation{"TestShopSimulation", sim.RunShop, 500, sim.ExpectedOfShop()}
	halfRuns   = simulation{"TestHalfSimulation", sim.RunHalf, 3000, sim.ExpectedOfHalves()}
)

// TestSimulation runs seeds until one breaks a promise. To see one seed again:
//
//	go test ./internal/sim -run 'TestSimulation$' -seeds 1 -seed N -history /tmp/history.txt
func TestSimulation(t *testing.T) { plainRuns.check(t) }

// TestRoutedSimulation does the same with two brokers and routes that change.
func TestRoutedSimulation(t *testing.T) { routedRuns.check(t) }

// TestSeveralBrokersSimulation does the same with events that go to both.
func TestSeveralBrokersSimulation(t *testing.T) { listRuns.check(t) }

// TestShopSimulation does the same with the six services of the shop.
func TestShopSimulation(t *testing.T) { shopRuns.check(t) }

// TestHalfSimulation does the same with half messages.
func TestHalfSimulation(t *testing.T) { halfRuns.check(t) }

// number is how many seeds to run.
func (s simulation) number() int {
	switch {
	case *seeds > 0:
		return *seeds
	case raceEnabled:
		return s.usual / 20
	case os.Getenv("SETTLE_TEST_ALL") != "":
		return 10 * s.usual
	}
	return s.usual
}

func (s simulation) check(t *testing.T) {
	began, n := time.Now(), s.number()
	failed, probes, simulated := s.runSeeds(*seed, n)
	took := time.Since(began)
	for _, r := range failed {
		s.report(t, r)
	}
	t.Logf("%d seeds, %.0f/s, %v simulated", n, float64(n)/took.Seconds(), simulated.Round(time.Minute))
	if n < s.usual || t.Failed() {
		return
	}
	for _, name := range s.expected {
		if probes[name] == 0 {
			t.Errorf("no seed came to: %s", name)
		}
	}
}

// runSeeds runs n seeds on all cores. It stops early when enough have failed.
func (s simulation) runSeeds(first uint64, n int) (failed []sim.Result, probes sim.Probes, simulated time.Duration) {
	probes = sim.Probes{}
	var next atomic.Uint64
	var mu sync.Mutex
	var crew sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		crew.Go(func() {
			for {
				i := next.Add(1) - 1
				mu.Lock()
				stop := enough(failed)
				mu.Unlock()
				if i >= uint64(n) || stop {
					return
				}
				r := s.run(first+i, false)
				mu.Lock()
				probes.Add(r.Probes)
				simulated += r.Simulated
				if r.Violation != nil {
					failed = append(failed, r)
				}
				mu.Unlock()
			}
		})
	}
	crew.Wait()
	return failed, probes, simulated
}

func enough(failed []sim.Result) bool {
	if *until == "" {
		return len(failed) >= 3
	}
	return slices.ContainsFunc(failed, func(r sim.Result) bool {
		return slices.Contains(strings.Split(*until, ";"), r.Violation.Invariant)
	})
}

// report runs a failed seed again, with its history, unless no line is wanted.
func (s simulation) report(t *testing.T, r sim.Result) {
	seed := r.Seed
	if *lines == 0 {
		t.Errorf("seed %d: %v", seed, r.Violation)
		return
	}
	r = s.run(seed, true)
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %v\n\noptions:%v\n\n", seed, r.Violation, r.Swarm)
	if err := r.History.Write(&b, *lines); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "\nagain: go test ./internal/sim -run '%s$' -seeds 1 -seed %d -history /tmp/history.txt\n", s.test, seed)
	t.Error(b.String())
	if *history == "" {
		return
	}
	f, err := os.Create(*history)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprintf(w, "seed %d: %v\noptions:%v\n", seed, r.Violation, r.Swarm)
	if err := r.History.Write(w, 0); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestOneSeedIsOneRun(t *testing.T) {
	for s := range uint64(20) {
		oneRun(t, plainRuns, 1000+s)
	}
	for s := range uint64(10) {
		oneRun(t, routedRuns, 1000+s)
		oneRun(t, shopRuns, 1000+s)
	}
}

func oneRun(t *testing.T, s simulation, seed uint64) {
	a, b := s.run(seed, false), s.run(seed, true)
	if a.Hash != b.Hash || a.Happened != b.Happened {
		t.Errorf("%s: seed %d ran twice: %d happenings with hash %x, then %d with %x", s.test, seed, a.Happened, a.Hash, b.Happened, b.Hash)
	}
	if a.Happened < 100 {
		t.Errorf("%s: seed %d: only %d happenings", s.test, seed, a.Happened)
	}
}

func TestDifferentSeedsDiffer(t *testing.T) {
	if a, b := sim.Run(1, false), sim.Run(2, false); a.Hash == b.Hash {
		t.Error("seeds 1 and 2 have the same hash")
	}
}
