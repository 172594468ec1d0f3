package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/drill"
)

func TestOnATerminalProgressIsWrittenOverAndWhatIsSaidStays(t *testing.T) {
	var out bytes.Buffer
	s := &screen{w: &out, terminal: true}
	s.show(drill.Progress{Phase: "starting", Orders: 10})
	s.say("a sentence")
	s.show(drill.Progress{Phase: "settling", Orders: 10, Placed: 10, Settled: 4})
	s.end()
	want := "    0s  starting: 0 of 10 orders placed, 0 settled\r\x1b[Ka sentence\n" +
		"    0s  settling: 10 of 10 orders placed, 4 settled\r\x1b[K"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}

func TestElsewhereProgressIsAPlainLineForEachPhaseAndEveryTwoSeconds(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out)
	for i := range 20 {
		s.show(drill.Progress{Phase: drill.PhaseFeeding, Elapsed: time.Duration(i) * 250 * time.Millisecond, Orders: 100, Placed: i})
	}
	s.show(drill.Progress{Phase: "settling", Elapsed: 5 * time.Second, Orders: 100})
	s.end()
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 4 || strings.ContainsAny(out.String(), "\r\x1b") {
		t.Errorf("%d lines:\n%s", len(lines), out.String())
	}
}

func TestTimeLeftIsGuessedOnlyWhereThereIsSomethingToGuessFrom(t *testing.T) {
	p := drill.Progress{Phase: drill.PhaseFeeding, Orders: 100, Placed: 50, Settled: 50, Elapsed: 10 * time.Second, Shots: 4, Fired: 2}
	if line := progressLine(p); !strings.HasSuffix(line, "2 of 4 faults, about 10s left") {
		t.Errorf("half way: %q", line)
	}
	for name, change := range map[string]func(*drill.Progress){
		"at first":  func(p *drill.Progress) { p.Placed, p.Settled = 1, 0 },
		"nothing":   func(p *drill.Progress) { p.Orders, p.Placed, p.Settled = 3, 0, 0 },
		"at once":   func(p *drill.Progress) { p.Elapsed = time.Millisecond },
		"when done": func(p *drill.Progress) { p.Placed, p.Settled = 100, 100 },
		"later":     func(p *drill.Progress) { p.Phase = "settling" },
	} {
		q := p
		change(&q)
		if line := progressLine(q); strings.Contains(line, "left") {
			t.Errorf("%s: %q", name, line)
		}
	}
}
