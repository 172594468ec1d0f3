// Package adopt holds what stores share that read tables of another owner: what
// is decided about a table, how it is decided, and what a row of it becomes. It
// does no I/O.
package adopt
