package drill

import (
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// process is one life of a child.
type process struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	log     *os.File
	started time.Time
	done    chan struct{} // closed after err is set
	err     error

	mu    sync.Mutex
	asked bool          // somebody of ours ended it
	down  time.Duration // and it is to stay down this long
}

func (c *Child) start() (*process, error) {
	path := c.cfg.Path
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		path = self
	}
	p := &process{cmd: exec.Command(path, c.cfg.Args...), started: time.Now(), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), c.cfg.Env...)
	p.cmd.SysProcAttr = childAttr()
	if c.cfg.Log != "" {
		f, err := os.OpenFile(c.cfg.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		p.log, p.cmd.Stdout, p.cmd.Stderr = f, f, f
	}
	stdin, err := p.cmd.StdinPipe()
	if err == nil {
		p.stdin = stdin
		err = p.cmd.Start()
	}
	if err != nil {
		if p.log != nil {
			_ = p.log.Close()
		}
		return nil, err
	}
	go func() { // ends with the process; whoever needs the end waits for done
		p.err = p.cmd.Wait()
		if p.log != nil {
			_ = p.log.Close()
		}
		close(p.done)
	}()
	c.mu.Lock()
	c.cur = p
	c.lives.Started++
	c.mu.Unlock()
	return p, nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// killed reports, of an ended process, whether SIGKILL ended it.
func (p *process) killed() bool {
	s, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && s.Signaled() && s.Signal() == syscall.SIGKILL
}

func (p *process) ask(down time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked, p.down = true, down
}

func (p *process) wasAsked() (bool, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked, p.down
}
