package sim

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// History is what happened in a world. Every happening goes into the hash;
// lines are kept only when a failed seed is run again to be read.
type History struct {
	hash  uint64
	count int
	keep  bool
	lines []string
}

// note adds a happening. The words and numbers must not depend on anything
// but the seed.
func (h *History) note(at time.Duration, who, what string, args ...any) {
	h.count++
	h.mix(uint64(at))
	h.text(who)
	h.text(what)
	for _, a := range args {
		switch v := a.(type) {
		case int:
			h.mix(uint64(v))
		case int64:
			h.mix(uint64(v))
		case string:
			h.text(v)
		}
	}
	if h.keep {
		h.lines = append(h.lines, line(at, who, what, args))
	}
}

// detail returns more words for the last line, when lines are kept. They are
// not part of the hash.
func (h *History) detail(v any) {
	if h.keep {
		h.lines[len(h.lines)-1] += " " + told(v)
	}
}

func line(at time.Duration, who, what string, args []any) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%11.6f  %-11s %s", at.Seconds(), who, what)
	for _, a := range args {
		fmt.Fprintf(&b, " %v", a)
	}
	return b.String()
}

func (h *History) mix(v uint64) {
	h.hash = (h.hash ^ v) * 0x9e3779b97f4a7c15
	h.hash ^= h.hash >> 29
}

func (h *History) text(s string) {
	x := uint64(14695981039346656037)
	for i := range len(s) {
		x = (x ^ uint64(s[i])) * 1099511628211
	}
	h.mix(x)
}

// Write writes the last n lines, or all if n is 0.
func (h *History) Write(w io.Writer, n int) error {
	lines := h.lines
	if n > 0 && len(lines) > n {
		lines = lines[len(lines)-n:]
		if _, err := fmt.Fprintf(w, "… %d earlier lines\n", len(h.lines)-n); err != nil {
			return err
		}
	}
	for _, l := range lines {
		if _, err := fmt.Fprintln(w, l); err != nil {
			return err
		}
	}
	return nil
}
