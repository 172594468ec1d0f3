//go:build race

package sim_test

// With the race detector a run is ten times slower and finds little here: it
// has one goroutine.
const raceEnabled = true
