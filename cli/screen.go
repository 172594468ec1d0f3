package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/settlemq/settle/drill"
)

// screen shows how a drill goes on: a line that is written over on a terminal,
// a plain line every two seconds elsewhere.
type screen struct {
	w        io.Writer
	terminal bool

	mu    sync.Mutex
	drawn bool
	next  time.Duration
	phase string
}

func newScreen(w io.Writer) *screen { return &screen{w: w, terminal: isTerminal(w)} }

// isTerminal reports whether w is something that a person looks at.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	i, err := f.Stat()
	return err == nil && i.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}

// say writes a line that stays.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	_, _ = fmt.Fprintf(s.w, format+"\n", args...)
}

// show writes the progress over the last one, or now and then below it.
func (s *screen) show(p drill.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		s.wipe()
		_, _ = io.WriteString(s.w, progressLine(p))
		s.drawn = true
		return
	}
	if p.Phase == s.phase && p.Elapsed < s.next {
		return
	}
	s.phase, s.next = p.Phase, p.Elapsed+2*time.Second
	_, _ = io.WriteString(s.w, progressLine(p)+"\n")
}

// end leaves the screen ready for what is printed next.
func (s *screen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
}

func (s *screen) wipe() {
	if s.drawn {
		_, _ = io.WriteString(s.w, "\r\x1b[K")
		s.drawn = false
	}
}

func progressLine(p drill.Progress) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%6s  %s: %d of %d orders placed, %d settled", p.Elapsed.Round(100*time.Millisecond), p.Phase, p.Placed, p.Orders, p.Settled)
	if p.Shots > 0 {
		fmt.Fprintf(&b, ", %d of %d faults", p.Fired, p.Shots)
	}
	if left, ok := eta(p); ok {
		fmt.Fprintf(&b, ", about %s left", left.Round(time.Second))
	}
	return b.String()
}

// eta guesses from what was placed and settled so far, while orders flow; at
// first there is nothing to guess from, and what comes after depends on repairs.
func eta(p drill.Progress) (time.Duration, bool) {
	done, all := p.Placed+int(p.Settled), 2*p.Orders
	if p.Phase != drill.PhaseFeeding || done < max(all/20, 1) || done >= all || p.Elapsed < time.Second {
		return 0, false
	}
	return p.Elapsed * time.Duration(all-done) / time.Duration(done), true
}
