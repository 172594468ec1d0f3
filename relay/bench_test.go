package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// BenchmarkMachine drives the machine alone over a log of full pages: what it
// costs for each event beside store and broker.
func BenchmarkMachine(b *testing.B) {
	const batch = 500
	m := NewMachine(Config{Owner: "bench"})
	events := make([]*settle.Event, batch)
	for i := range events {
		events[i] = &settle.Event{
			ID: fmt.Sprintf("0197-%08d", i), Type: "order.created", AggregateID: fmt.Sprint("order-", i), Topic: "order-domain-event",
			Payload: make([]byte, 400),
		}
	}
	now := time.Unix(1_800_000_000, 0)
	lease := Lease{Held: true, Owner: "bench", Epoch: 1, Expires: now.Add(time.Hour)}
	var number int64
	receipts := make([]settle.Receipt, batch)
	var waiting []Command
	answer := func(c Command) Input {
		switch c := c.(type) {
		case Lead:
			return Elected{Lease: lease}
		case Load:
			return Loaded{State: State{CursorEvents: map[int64]string{}, MaxID: 1 << 60}}
		case Commit:
			number = c.Flush.Checkpoint.Number
			return Committed{ID: c.ID}
		case Poll:
			rows := make([]Row, batch)
			for i := range rows {
				rows[i] = Row{ID: c.Query.After + int64(i) + 1, Event: events[i]}
			}
			return Polled{Query: c.Query, Page: Page{Rows: rows, Epoch: 1, Number: number}}
		case Publish:
			return Published{Batch: c.Batch, Receipts: receipts[:len(c.Messages)]}
		case LoadControls:
			return ControlsLoaded{}
		}
		return nil
	}
	b.ReportAllocs()
	in := Input(Tick{})
	for m.stats.Published < int64(b.N) {
		for _, c := range m.Step(now, in) {
			if _, wait := c.(WaitUntil); !wait {
				waiting = append(waiting, c)
			}
		}
		if len(waiting) == 0 {
			now, in = now.Add(time.Millisecond), Tick{}
			continue
		}
		in = answer(waiting[0])
		waiting = waiting[1:]
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(m.stats.Published), "ns/event")
}
