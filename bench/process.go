package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// carryWord is the first argument of a process that is a contender.
const carryWord = "carry"

// process is a contender at work in a process of its own.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	said  *tail
	ended chan struct{}
	err   error // of its end; read after ended is closed
	quiet bool  // it was told to end, or killed
}

// start runs the trial's contender.
func (s *stand) start(ctx context.Context) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	lease, poisoned := time.Duration(0), -1
	if s.kill {
		lease = killedLease
	}
	if s.poisoned {
		poisoned = poisonedKey
	}
	cmd := exec.CommandContext(ctx, program, carryWord, s.engine.name, s.contender.name, s.path, strconv.Itoa(s.capacity()),
		strconv.Itoa(s.keys), strconv.Itoa(poisoned), lease.String())
	// Not an argument: it holds a password, and arguments are seen by all.
	cmd.Env = append(os.Environ(), "SETTLE_BENCH_DATABASE="+s.server.url(s.place), "SETTLE_BENCH_BROKER="+s.broker)
	p := &process{cmd: cmd, said: &tail{}, ended: make(chan struct{})}
	cmd.Stderr = p.said
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// failed tells why the process ended although nobody asked it to.
func (p *process) failed() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s ended: %w: %s", p.cmd.Args[3], errors.Join(p.err, errors.New("nobody asked it to")), p.said)
	default:
		return nil
	}
}

func (p *process) kill() error {
	p.quiet = true
	err := p.cmd.Process.Kill()
	<-p.ended
	return err
}

// stop asks the process to end, and kills it when it does not. Stopping twice
// is harmless.
func (p *process) stop() error {
	if p.quiet {
		return nil
	}
	p.quiet = true
	_ = p.stdin.Close()
	select {
	case <-p.ended:
	case <-time.After(15 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not end when it was asked to: %s", p.cmd.Args[3], p.said)
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w: %s", p.cmd.Args[3], p.err, p.said)
	}
	return nil
}

// tail keeps the end of what a process has said.
type tail struct{ b []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.b = append(t.b, b...)
	if len(t.b) > 4000 {
		t.b = t.b[len(t.b)-4000:]
	}
	return len(b), nil
}

func (t *tail) String() string { return string(t.b) }

// carry is the main of a contender's process. It ends when its input does.
func carry(args []string) error {
	if len(args) != 7 {
		return errors.New("carry is not for people")
	}
	e, _ := engineOf(args[0])
	c, found := e.contender(args[1])
	if !found {
		return errors.New("there is no contender " + args[0] + " " + args[1])
	}
	events, err1 := strconv.Atoi(args[3])
	keys, err2 := strconv.Atoi(args[4])
	poisoned, err3 := strconv.Atoi(args[5])
	lease, err4 := time.ParseDuration(args[6])
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	b, err := mapBoard(args[2], events)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		cancel()
	}()
	b.head.Ready.Store(1)
	return c.carry(ctx, conditions{url: os.Getenv("SETTLE_BENCH_DATABASE"), broker: os.Getenv("SETTLE_BENCH_BROKER"), out: &sink{board: b, keys: keys, poisoned: poisoned}, lease: lease})
}
