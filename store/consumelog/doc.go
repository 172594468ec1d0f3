// Package consumelog decides what becomes of consumed events, given what a
// database has recorded of them. It is the part of settle.Inbox.Apply that all
// databases share, and it is pure: a store reads Facts inside its transaction,
// Plan turns them into a Step for each item, and the store writes the steps.
package consumelog
