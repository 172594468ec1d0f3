package drill

import (
	"math/rand/v2"
)

// Shot is one injection of a fault.
type Shot struct {
	Fault string
	// After is how many orders have been placed when it is fired.
	After int
	// Nth counts the shots of this fault from 0.
	Nth int
}

// Schedule spreads the faults over a run of the given number of orders: each
// happens the given number of times, in an order and at places that depend on
// the seed alone. A fault follows itself only when there is no other. The
// first tenth of the orders and the last are left alone, so that every fault
// has orders before and after it.
func Schedule(seed uint64, faults []string, times, orders int) []Shot {
	total := len(faults) * times
	if total == 0 || orders <= 0 {
		return nil
	}
	rnd := rand.New(rand.NewPCG(seed, 0x5e771e))
	shots := make([]Shot, 0, total)
	last := ""
	for nth := range times { // in rounds, so that no fault waits for long
		round := append([]string(nil), faults...)
		rnd.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		if len(round) > 1 && round[0] == last {
			round[0], round[len(round)-1] = round[len(round)-1], round[0]
		}
		for _, name := range round {
			shots = append(shots, Shot{Fault: name, Nth: nth})
			last = name
		}
	}
	begin, width := float64(orders)*0.1, float64(orders)*0.8/float64(total)
	for i := range shots {
		shots[i].After = int(begin + width*(float64(i)+rnd.Float64()*0.8))
	}
	return shots
}
