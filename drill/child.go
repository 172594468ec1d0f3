package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// ErrNotRunning is returned by acts on a child that has no process just now.
var ErrNotRunning = errors.New("child is not running")

// ChildConfig describes a child process.
type ChildConfig struct {
	// Name is the role; it names the child in errors.
	Name string
	// Path of the program. Defaults to our own binary.
	Path string
	// Args of the program, without its name.
	Args []string
	// Env is added to our environment. Defaults to nothing.
	Env []string
	// Log is the file that takes what the child prints; it is appended to.
	// Defaults to nowhere.
	Log string
	// Ready returns nil once the child serves. Defaults to: at once.
	Ready func(ctx context.Context) error
	// MinWait and MaxWait bound the wait before a child that ended is started
	// again; it doubles while the child keeps ending unasked. Default to
	// 50 ms and 2 s.
	MinWait, MaxWait time.Duration
	// Grace is how long a child may take to end when asked. Defaults to 5 s.
	Grace time.Duration
	// GiveUp is how many times in a row a child may end unasked, each time
	// within 5 s of its start, before Run returns an error. Defaults to 20.
	GiveUp int
}

// Child keeps one process running: it starts it again whenever it ends, until
// Run's context is done. The process never outlives us: on Linux the kernel
// kills it, elsewhere (and there too) the end of its standard input tells it
// to end; see FollowParent.
//
// Kill, Stop, Pause and Resume may be called from any goroutine while Run runs.
type Child struct {
	cfg ChildConfig

	mu    sync.Mutex
	cur   *process
	lives Lives
}

// NewChild returns a child that is started by Run.
func NewChild(cfg ChildConfig) *Child {
	if cfg.MinWait <= 0 {
		cfg.MinWait = 50 * time.Millisecond
	}
	if cfg.MaxWait <= 0 {
		cfg.MaxWait = 2 * time.Second
	}
	if cfg.Grace <= 0 {
		cfg.Grace = 5 * time.Second
	}
	if cfg.GiveUp <= 0 {
		cfg.GiveUp = 20
	}
	return &Child{cfg: cfg}
}

// Name returns the child's role.
func (c *Child) Name() string { return c.cfg.Name }

// Run keeps the child running until ctx is done, then asks it to end, kills
// it if it does not within Grace, and returns nil. It returns an error when
// the program can't be started or keeps ending by itself.
func (c *Child) Run(ctx context.Context) error {
	// The kernel's promise to kill the child is bound to the thread that
	// started it, so the thread must last as long as the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	wait, inARow := c.cfg.MinWait, 0
	for {
		p, err := c.start()
		if err != nil {
			return fmt.Errorf("start %s: %w", c.cfg.Name, err)
		}
		select {
		case <-ctx.Done():
			c.end(p)
			return nil
		case <-p.done:
		}
		asked, down := p.wasAsked()
		switch {
		case asked:
			wait, inARow = c.cfg.MinWait, 0
		case time.Since(p.started) > 5*time.Second:
			inARow = 1
		default:
			inARow++
			wait = min(2*wait, c.cfg.MaxWait)
		}
		c.ended(p, asked)
		if inARow >= c.cfg.GiveUp {
			return fmt.Errorf("run %s: ended by itself %d times in a row: %w\n%s", c.cfg.Name, inARow, p.err, logTail(c.cfg.Log))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(wait, down)):
		}
	}
}

func (c *Child) ended(p *process, asked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cur = nil
	if !asked && !p.killed() {
		c.lives.Failed++
		c.lives.Last = p.cmd.ProcessState.String()
	}
}

// Lives returns what became of the child's processes so far.
func (c *Child) Lives() Lives {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lives
	l.Name = c.cfg.Name
	return l
}

// end asks the process to end and kills it when it does not.
func (c *Child) end(p *process) {
	p.ask(0)
	_ = p.cmd.Process.Signal(syscall.SIGCONT) // a stopped process can't obey
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.stdin.Close()
	select {
	case <-p.done:
	case <-time.After(c.cfg.Grace):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	c.ended(p, true)
}

// Kill ends the process with SIGKILL, waits until it is gone and keeps it
// down for at least down. It returns nil only if the kernel says that it was
// SIGKILL that ended it.
func (c *Child) Kill(down time.Duration) error {
	p, err := c.signal(syscall.SIGKILL, true, down)
	if err != nil {
		return err
	}
	<-p.done
	if !p.killed() {
		return fmt.Errorf("kill %s: it ended otherwise: %s", c.cfg.Name, p.cmd.ProcessState)
	}
	return nil
}

// Stop asks the process to end with SIGTERM, waits until it has, and keeps it
// down for at least down. It returns nil only if the process ended by itself
// with exit code 0 within Grace.
func (c *Child) Stop(down time.Duration) error {
	p, err := c.signal(syscall.SIGTERM, true, down)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(c.cfg.Grace):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("stop %s: %s", c.cfg.Name, p.cmd.ProcessState)
	}
	return nil
}

// Pause stops the process with SIGSTOP, holds it for d (or until ctx is done)
// and lets it go on. It returns nil only if the same process is alive at the
// end.
func (c *Child) Pause(ctx context.Context, d time.Duration) error {
	p, err := c.signal(syscall.SIGSTOP, false, 0)
	if err != nil {
		return err
	}
	defer func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }()
	select {
	case <-p.done:
		return fmt.Errorf("pause %s: it ended while paused: %s", c.cfg.Name, p.cmd.ProcessState)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (c *Child) signal(s os.Signal, ends bool, down time.Duration) (*process, error) {
	c.mu.Lock()
	p := c.cur
	c.mu.Unlock()
	if p == nil || p.ended() {
		return nil, fmt.Errorf("signal %s: %w", c.cfg.Name, ErrNotRunning)
	}
	if ends {
		p.ask(down)
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		return nil, fmt.Errorf("signal %s: %w", c.cfg.Name, err)
	}
	return p, nil
}

// Await waits until the child answers its readiness probe.
func (c *Child) Await(ctx context.Context) error {
	if c.cfg.Ready == nil {
		return nil
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.cfg.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (last answer: %v)\n%s", c.cfg.Name, ctx.Err(), err, logTail(c.cfg.Log))
		case <-tick.C:
		}
	}
}

// logTail returns the end of a log file for an error message.
func logTail(path string) string {
	const most = 2000
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if i, err := f.Stat(); err == nil && i.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	b, _ := io.ReadAll(io.LimitReader(f, most))
	return string(b)
}
