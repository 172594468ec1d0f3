package kafka_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/kafka"
)

// memberAt is set in a process that is a member, and nothing else.
const memberAt = "SETTLE_TEST_KAFKA_MEMBER"

// TestMain makes a process a member when it is started as one.
func TestMain(m *testing.M) {
	if at := os.Getenv(memberAt); at != "" {
		if err := beMember(at, os.Getenv(memberAt+"_TOPIC")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// printing prints the ids of what it takes.
type printing struct{}

func (printing) Deliver(_ context.Context, _ settle.Partition, records []settle.Record) error {
	for _, rec := range records {
		fmt.Println(rec.Event.ID)
	}
	time.Sleep(20 * time.Millisecond) // so that one is likely in flight when the process is stopped
	return nil
}

func beMember(at, topic string) error {
	ctx, stop := context.WithCancel(context.Background())
	go func() { // the parent closes it
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		stop()
	}()
	b, err := kafka.Open(ctx, at, kafka.Config{SessionTimeout: 2 * time.Second})
	if err != nil {
		return err
	}
	return errors.Join(b.Subscribe(ctx, settle.Subscription{Group: "g-" + topic, Topics: []string{topic}}, printing{}), b.Close())
}

// process is a member of its own.
type process struct {
	cmd *exec.Cmd
	end func() error

	mu   sync.Mutex
	seen map[string]bool
}

func startMember(t testing.TB, r *rig) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0]), seen: map[string]bool{}}
	p.cmd.Env = append(os.Environ(), memberAt+"="+r.at, memberAt+"_TOPIC="+r.topic)
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.mu.Lock()
			p.seen[lines.Text()] = true
			p.mu.Unlock()
		}
	}()
	p.end = sync.OnceValue(func() error {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = in.Close()
		<-read
		return p.cmd.Wait()
	})
	t.Cleanup(func() { _ = p.end() })
	return p
}

func (p *process) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen)
}

// A process that sleeps past its session and wakes up believes that its
// partitions are its own.
func TestAProcessThatSleptPastItsSessionMovesNoPositionBack(t *testing.T) {
	at := serverForTest(t)
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("runs with SETTLE_TEST_ALL=1: it lets a session run out")
	}
	r := newRig(t, at)
	b := r.open(t, r.config())
	defer b.Close()
	group := "g-" + r.topic
	sleeper := startMember(t, r)
	l := r.load(t, b, 2)
	await(t, "the process to take events", func() bool { return sleeper.count() > 100 })
	s := newSink()
	leave := r.join(t, b, group, s)
	await(t, "the members to share", func() bool { return len(s.records()) > 100 })
	watched := make(chan error, 1)
	watching, stop := context.WithCancel(t.Context())
	go func() { watched <- r.watch(watching, group) }()
	for range 3 {
		if err := sleeper.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second) // twice its session
		if err := sleeper.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		n := sleeper.count()
		await(t, "the process to take events again", func() bool { return sleeper.count() > n+50 })
	}
	l.end()
	await(t, "the lag to end", func() bool { return r.lag(t, group) == 0 })
	stop()
	if err := <-watched; err != nil {
		t.Error(err)
	}
	leave()
	if err := sleeper.end(); err != nil {
		t.Error(err)
	}
	both := 0
	for _, rec := range s.records() {
		if sleeper.seen[rec.Event.ID] {
			both++
		}
		sleeper.seen[rec.Event.ID] = true
	}
	lost := 0
	for id := range l.acked {
		if !sleeper.seen[id] {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d events came to nobody", lost, len(l.acked))
	}
	t.Logf("%d events, %d of them came to both", len(l.acked), both)
	l.check(t, r)
}

// watch returns an error if a position of a group is ever moved back.
func (r *rig) watch(ctx context.Context, group string) error {
	last := map[int32]int64{}
	for ctx.Err() == nil {
		offsets, err := r.admin.FetchOffsets(ctx, group)
		if err != nil {
			continue // the end of the test, or a moment's trouble
		}
		var back error
		offsets.Each(func(o kadm.OffsetResponse) {
			if o.At < last[o.Partition] {
				back = fmt.Errorf("the position of partition %d went from %d back to %d", o.Partition, last[o.Partition], o.At)
			}
			last[o.Partition] = o.At
		})
		if back != nil {
			return back
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}
