// Package server runs relays: for any number of databases it carries what
// their outboxes hold to a broker, with nothing else needed of the producers
// than rows in t_outbox_event. It is what `settle serve` runs, and may be
// embedded: fill in a Config, or read one with ReadConfig, then New and Run.
//
// Several servers with one Config stand by for each other, in any number of
// processes: per database one leads.
//
// Read the files in this order: config.go, server.go, source.go, standing.go,
// health.go, check.go.
package server
