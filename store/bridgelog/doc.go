// Package bridgelog is what the stores share of keeping dead letters of
// consumers that are not ours: how one becomes columns, and back. It does no I/O.
package bridgelog
