// Package halflog is what the stores of half messages share in pure code: how an
// event is kept in a record, what a record and its checks tell of its way, and how
// a record stands.
package halflog
