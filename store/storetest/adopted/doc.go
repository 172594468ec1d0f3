// Package adopted checks what Settle does with tables of another owner: an
// outbox that a relay of its own has read so far, and a consume log that foreign
// consumers write to.
//
// Each exported check is the body of one test, so that every store runs it under
// the same name. A store gives an Open for a service with tables of its own; what
// only its kind of database has is checked beside this package.
package adopted
