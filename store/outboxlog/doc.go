// Package outboxlog holds what stores share that keep an outbox as a log: how
// positions are written, how holes are grouped, what a page may take, and who
// may lead. It does no I/O.
package outboxlog
