package rabbitmq_test

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/brokertest"
	"github.com/settlemq/settle/internal/services"
)

// own is a server of the test's own, which it may kill and fill.
type own struct {
	*services.Service
	t testing.TB
}

func newOwn(t testing.TB) *own {
	t.Helper()
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("only with SETTLE_TEST_ALL=1: it starts a server of its own")
	}
	services.URL(t, "SETTLE_TEST_RABBITMQ", "rabbitmq")
	return &own{services.Up(t, []string{"rabbitmq"})[0], t}
}

// ctl runs rabbitmqctl against the server.
func (o *own) ctl(args ...string) {
	o.t.Helper()
	port, err := strconv.Atoi((&url.URL{Host: o.Host()}).Port())
	if err != nil {
		o.t.Fatal(err)
	}
	cmd := exec.Command("/usr/lib/rabbitmq/bin/rabbitmqctl", args...)
	cmd.Env = append(os.Environ(), "HOME="+o.Dir(), "ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT="+strconv.Itoa(port+4),
		"RABBITMQ_NODENAME=settle-"+strconv.Itoa(port)+"@localhost", "RABBITMQ_CONF_ENV_FILE=/dev/null",
		"RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(o.Dir(), "node", "enabled_plugins"))
	if out, err := cmd.CombinedOutput(); err != nil {
		o.t.Fatalf("rabbitmqctl %v: %v\n%s", args, err, out)
	}
}

// remember makes the server write which quorum queues it has. It does so by
// itself half a second after it made one: a queue that is younger when the power
// goes comes back empty, or without a leader.
func (o *own) remember() {
	o.t.Helper()
	o.ctl("eval", "[dets:sync(T) || T <- dets:all()].")
}

func TestRabbitMQKeepsTheContractThroughKills(t *testing.T) {
	o := newOwn(t)
	brokertest.Run(t, func(t testing.TB) brokertest.Harness {
		r := newRig(t, o.At().String())
		h := r.harness(t)
		h.Patience = 3 * patience
		h.Restart = func(t testing.TB) {
			o.remember()
			o.Kill()
			o.Start()
			r.connect(t)
		}
		return h
	})
}

func TestAnAlarmIsBackPressure(t *testing.T) {
	o := newOwn(t)
	for why, c := range map[string]struct{ begin, end []string }{
		"low on memory": {[]string{"set_vm_memory_high_watermark", "0.0000001"}, []string{"set_vm_memory_high_watermark", "0.4"}},
		"low on disk":   {[]string{"set_disk_free_limit", "50000GB"}, []string{"set_disk_free_limit", "50MB"}},
	} {
		t.Run(why, func(t *testing.T) {
			alarmed(t, o, why, func() { o.ctl(c.begin...) }, func() { o.ctl(c.end...) })
		})
	}
}

func alarmed(t *testing.T, o *own, why string, begin, end func()) {
	t.Helper()
	r := newRig(t, o.At().String())
	r.introduce(t, "g")
	c, cfg := newCollector(), r.config()
	cfg.Log = slog.New(c)
	cfg.Timeout = 2 * time.Second // requests on a blocked connection may take longer
	b := closing(t, r.open(t, cfg))
	c.subscribe(t, b, "g", r.topic)
	first := events(r.topic, "k", 26)
	publishAll(t, b, first)
	begin()
	for range 2 { // before and after it has said so
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		for i, got := range b.Publish(ctx, events(r.topic, "l", 26)) {
			if got.Err == nil || settle.ScopeOf(got.Err) != settle.ScopeBroker {
				t.Fatalf("event %d under an alarm: got %v, want a broker error", i, got.Err)
			}
			if !strings.Contains(got.Err.Error(), "until its alarm ends ("+why+")") {
				t.Errorf("%v does not say why", got.Err)
			}
		}
		cancel()
	}
	waiting := make(chan []settle.Receipt, 1)
	go func() { waiting <- b.Publish(context.Background(), events(r.topic, "m", 26)) }()
	end()
	for _, got := range <-waiting {
		if got.Err != nil {
			t.Errorf("what has waited for the end of the alarm: %v", got.Err)
		}
	}
	all := append(append(first, events(r.topic, "l", 26)...), events(r.topic, "m", 26)...)
	publishAll(t, b, all[26:52])
	c.await(t, "all events", func() bool { return c.has(all) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told("takes no messages") != 1 || c.told("takes messages again") != 1 || len(c.lines) != 2 {
		t.Errorf("the log says %q, want one line of each change", c.lines)
	}
}

func TestAnEventLargerThanTheServerTakesIsRefusedAndItsNeighboursGo(t *testing.T) {
	o := newOwn(t)
	o.ctl("eval", "application:set_env(rabbit, max_message_size, 20000), persistent_term:put(max_message_size, 20000).")
	r := newRig(t, o.At().String())
	b := closing(t, r.open(t, r.config()))
	for _, n := range []int{1, 26} {
		batch := events(r.topic, "k"+strconv.Itoa(n), n)
		large := event(r.topic, "large"+strconv.Itoa(n), 1)
		large.Event.Payload = []byte(`"` + strings.Repeat("x", 30_000) + `"`)
		batch = append(batch[:n/2], append([]settle.Message{large}, batch[n/2:]...)...)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		for i, got := range b.Publish(ctx, batch) {
			switch {
			case i == n/2 && (settle.ScopeOf(got.Err) != settle.ScopeRecord || !settle.IsPermanent(got.Err)):
				t.Errorf("the large one of %d: got %v, want a record error for good", n+1, got.Err)
			case i != n/2 && got.Err != nil:
				t.Errorf("neighbour %d of %d: %v", i, n+1, got.Err)
			}
		}
		cancel()
	}
}

func TestABrokerThatHangsEndsNoMoreThanItsConnections(t *testing.T) {
	o := newOwn(t)
	r := newRig(t, o.At().String())
	r.introduce(t, "g")
	c, cfg := newCollector(), r.config()
	cfg.Log, cfg.Heartbeat, cfg.Timeout = slog.New(c), time.Second, 2*time.Second
	b := closing(t, r.open(t, cfg))
	c.subscribe(t, b, "g", r.topic)
	first, second := events(r.topic, "k", 26), events(r.topic, "l", 26)
	publishAll(t, b, first)
	c.await(t, "all events", func() bool { return c.has(first) })
	o.Pause()
	receipts := b.Publish(context.WithoutCancel(t.Context()), second) // ends with the connection
	o.Resume()
	for _, got := range receipts {
		if got.Err == nil || settle.ScopeOf(got.Err) != settle.ScopeBroker {
			t.Errorf("got %v, want a broker error", got.Err)
		}
	}
	publishAll(t, b, second)
	c.await(t, "all events", func() bool { return c.has(second) })
}
