//go:build race

package sim_test

// defaultSeeds is smaller with the race detector, which makes a run ten times
// slower and finds little here: a run has one goroutine.
const defaultSeeds = 100
