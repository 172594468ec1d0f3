// Package drill breaks a running system on purpose and proves what held.
//
// A drill starts the roles of a system as child processes (Child), puts a
// Proxy between them and their broker, injects faults from a seeded Schedule
// while work flows, waits until everything has settled, copies the facts of
// all services and the broker's log into one scratch database and runs every
// invariant there (Facts). The Report is the proof.
//
// Nothing in it is simulated: a fault counts only when its effect was seen on
// the injected side (a wait status that says killed, connections that were
// cut, answers that were swallowed, copies that the broker acknowledged).
package drill
