package main

import "context"

// layout is how a table keeps events.
type layout struct {
	// create makes the tables in an empty place.
	create func(ctx context.Context, p *place) error
	// fill stores a backlog and reads it once.
	fill func(ctx context.Context, p *place, f filling) error
	// insert stores one event: its id, its key, its payload as text.
	insert string
	// table names the events' table.
	table string
}

// filling is a backlog: events numbered from 0, with so many keys in turn, so
// many a transaction, which divides their number; one of every largeEvery is large, none when it is 0.
type filling struct{ events, keys, perTransaction, largeEvery int }

// every is largeEvery, or what no number of an event reaches.
func (f filling) every() int {
	if f.largeEvery == 0 {
		return f.events + 1
	}
	return f.largeEvery
}

// scripted creates tables by SQL alone.
func scripted(script string) func(context.Context, *place) error {
	return func(ctx context.Context, p *place) error { return p.exec(ctx, script) }
}

// shop is the business of producers and consumers: its tables, an order's two
// rows given its id (and its customer), and the table of effects.
type shop struct{ tables, order, line, account string }
