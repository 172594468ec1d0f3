package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/settlemq/settle/govern"
)

// maxFrames is how much of a stack is shown as text; --json shows all that is
// kept.
const maxFrames = 12

// printBridged tells what a dead letter of a consumer that is not ours says
// beyond what all do.
func printBridged(w io.Writer, d govern.DeadLetter) error {
	b := d.Bridged
	if b == nil {
		return nil
	}
	lines := [][2]string{
		{"consumer", fmt.Sprintf("%s, which is not ours; it died %s, bridged %s", legible(d.Group), stamp(b.DiedAt), stamp(b.BridgedAt))},
		{"came from", place(b.From)},
	}
	for _, death := range b.History {
		lines = append(lines, [2]string{"died before", fmt.Sprintf("%s at %s, %d times, %s", legible(death.Reason), place(death.Place), death.Count, stamp(death.At))})
	}
	if b.Before != 0 {
		lines = append(lines, [2]string{"after", fmt.Sprintf("the replay of %s:%d", d.Service, b.Before)})
	}
	if b.Trace != "" {
		frames := strings.Split(strings.TrimSpace(b.Trace), "\n")
		if len(frames) > maxFrames {
			frames = append(frames[:maxFrames], "…")
		}
		lines = append(lines, [2]string{"thrown", legibleLines(strings.Join(frames, "\n"), letterIndent)})
	}
	lines = append(lines, [2]string{"can go to", targets(b.To)})
	switch {
	case b.Refused != "" && d.State == govern.StateOpen:
		lines = append(lines, [2]string{"not replayed", fmt.Sprintf("to %s after %s: %s", b.Target, count(b.Tries, "try", "tries"), legible(b.Refused))})
	case b.Refused != "":
		lines = append(lines, [2]string{"replay", fmt.Sprintf("to %s, after %s: %s", b.Target, count(b.Tries, "try", "tries"), legible(b.Refused))})
	case b.Target != "":
		lines = append(lines, [2]string{"replay", "to " + string(b.Target)})
	}
	for _, l := range lines {
		if _, err := fmt.Fprintf(w, "%-12s %s\n", l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}

func stamp(at time.Time) string {
	if at.IsZero() {
		return "at a time that nobody tells"
	}
	return at.UTC().Format(time.RFC3339)
}

// place is what is known of where a message lies, or lay.
func place(p govern.Place) string {
	var parts []string
	if p.Topic != "" {
		parts = append(parts, fmt.Sprintf("%s[%d]@%d", legible(p.Topic), p.Partition, p.Offset))
	}
	if p.Queue != "" {
		parts = append(parts, "queue "+legible(p.Queue))
	}
	if p.Exchange != "" || p.RoutingKey != "" {
		parts = append(parts, fmt.Sprintf("exchange %q, routing key %q", p.Exchange, p.RoutingKey))
	}
	return cmp.Or(strings.Join(parts, ", "), "a place that nothing tells")
}

func targets(to []govern.Target) string {
	words := map[govern.Target]string{govern.ToGroup: "group (it alone)", govern.ToOrigin: "origin (every group that reads there)"}
	var all []string
	for _, t := range to {
		all = append(all, cmp.Or(words[t], string(t)))
	}
	return cmp.Or(strings.Join(all, ", "), "nowhere")
}
