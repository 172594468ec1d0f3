// Command bench measures ways to carry events from a table of PostgreSQL or
// MariaDB to a broker, and to apply them at the other end, side by side in one
// run.
//
//	go run -C bench . --db postgres://user:password@127.0.0.1:5432/postgres
//
// Every contestant has a file of its own on each database, relay_NAME_DATABASE.go
// or consumer_NAME_DATABASE.go, short enough to be judged; what it is stands in
// relay_NAME.go or consumer_NAME.go. Each runs in a process of its own, on tables
// of its own, and publishes into a null sink. Rounds are interleaved, and the
// table shows medians.
//
// Read engine.go, trial.go and scenes.go for how it is measured; report.go and
// goals.go for what is made of it.
package main
