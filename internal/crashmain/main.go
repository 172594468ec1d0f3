// Command crashmain is the product with one thing more: it kills itself at
// named crash points. SETTLE_CRASH lists them as point:n:file with commas
// between: at the n-th pass of the point the process sends itself SIGKILL,
// unless the file is there, which it makes first. So each point kills one
// process once, however many processes share the list.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/settlemq/settle/cli"
)

func main() { os.Exit(run()) }

func run() int {
	plan, err := parsePlan(os.Getenv("SETTLE_CRASH"))
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "crashmain:", err)
		return cli.ExitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, cli.Hooks{Crash: plan.pass})
}

// plan holds the points at which this process is to die.
type plan struct {
	mu     sync.Mutex
	points map[string]*end
}

type end struct {
	left int
	file string
}

func parsePlan(text string) (*plan, error) {
	p := &plan{points: map[string]*end{}}
	if text == "" {
		return p, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		words := strings.SplitN(item, ":", 3)
		if len(words) != 3 {
			return nil, fmt.Errorf("read SETTLE_CRASH: %q is not point:n:file", item)
		}
		n, err := strconv.Atoi(words[1])
		if err != nil || n < 1 {
			return nil, fmt.Errorf("read SETTLE_CRASH: %q is no number of passes", words[1])
		}
		p.points[words[0]] = &end{left: n, file: words[2]}
	}
	return p, nil
}

// pass dies if it is time to.
func (p *plan) pass(point string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.points[point]
	if e == nil {
		return
	}
	if e.left--; e.left > 0 {
		return
	}
	delete(p.points, point)
	f, err := os.OpenFile(e.file, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil { // another process was faster
		return
	}
	_ = f.Close()
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}
