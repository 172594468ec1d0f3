package sim

import (
	"fmt"
	"strings"

	"github.com/settlemq/settle/relay"
)

// told says what is in a relay's command or input, for a person who reads the
// history.
func told(v any) string {
	switch v := v.(type) {
	case relay.Poll:
		return fmt.Sprintf("%q after %d up to %d holes %v", v.Destination, v.Query.After, v.Query.UpTo, v.Query.Holes)
	case relay.Polled:
		return fmt.Sprintf("%q rows %s complete %v checkpoint %d/%d", v.Destination, rowIDs(v.Page.Rows), v.Page.Complete, v.Page.Epoch, v.Page.Number)
	case relay.ReadSide:
		return fmt.Sprintf("side %d %s/%s held %v", v.Query.Side, v.Query.Destination, v.Query.Key, v.Query.Held)
	case relay.SideLoaded:
		return fmt.Sprintf("side %d rows %s more %v", v.Query.Side, rowIDs(v.Page.Rows), v.Page.More)
	case relay.Commit:
		return flushed(v.Flush)
	case relay.Published:
		return fmt.Sprintf("batch %d", v.Batch)
	case relay.Failed:
		return named(v.Command) + ": " + v.Err.Error()
	case relay.Elected:
		return fmt.Sprintf("held %v epoch %d deaths %d", v.Lease.Held, v.Lease.Epoch, v.Lease.Deaths)
	}
	return ""
}

func rowIDs(rows []relay.Row) string {
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	return fmt.Sprint(ids)
}

func flushed(f relay.Flush) string {
	var b strings.Builder
	for _, s := range f.Sent {
		fmt.Fprintf(&b, " sent %d from %d", s.ID, s.From)
	}
	for _, p := range f.Park {
		fmt.Fprintf(&b, " park %d of %s from %d as %s", p.ID, p.Key, p.From, p.Class)
	}
	for _, a := range f.Attempts {
		fmt.Fprintf(&b, " attempt %d among %d of %d as %s", a.Attempts, a.Together, a.ID, a.Class)
	}
	for _, d := range f.Dead {
		fmt.Fprintf(&b, " dead %d as %s unblock %v", d.ID, d.Class, d.Unblock)
	}
	for _, d := range f.Delay {
		fmt.Fprintf(&b, " delay %d from %d", d.ID, d.From)
	}
	for _, s := range f.Skip {
		fmt.Fprintf(&b, " skip %d from %d", s.ID, s.From)
	}
	if len(f.Cold) > 0 {
		fmt.Fprintf(&b, " cold %v", f.Cold)
	}
	return b.String()
}
