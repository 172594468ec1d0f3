package nats_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/brokertest"
	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/broker/nats/embedded"
	"github.com/settlemq/settle/drill"
)

const topicName = "suite"

func TestJetStreamKeepsTheContract(t *testing.T) {
	brokertest.Run(t, func(t testing.TB) brokertest.Harness { return newRig(t).harness(t) })
}

// TestMain is the broker's process when a test starts it as a child.
func TestMain(m *testing.M) {
	if dir := os.Getenv("BROKER_DIR"); dir != "" {
		os.Exit(serve(dir))
	}
	os.Exit(m.Run())
}

// serve runs a server until it is killed, or its parent is gone.
func serve(dir string) int {
	port, _ := strconv.Atoi(os.Getenv("BROKER_PORT"))
	s, err := embedded.Start(embedded.Config{Dir: dir, Port: port, Token: "secret"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(s.URL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// rig is a server in a process of its own, so that it can be killed.
type rig struct {
	dir, url string
	child    *exec.Cmd
}

func newRig(t testing.TB) *rig {
	r := &rig{dir: t.TempDir()}
	r.start(t, "0")
	t.Cleanup(r.kill)
	return r
}

func (r *rig) start(t testing.TB, port string) {
	t.Helper()
	r.child = exec.Command(os.Args[0])
	r.child.Env = append(os.Environ(), "BROKER_DIR="+r.dir, "BROKER_PORT="+port)
	r.child.Stderr = os.Stderr
	if _, err := r.child.StdinPipe(); err != nil { // held open while we live
		t.Fatal(err)
	}
	out, err := r.child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		r.kill()
		t.Fatalf("the broker's process says %q: %v", line, err)
	}
	r.url = strings.TrimSpace(line)
}

// kill ends the server's process without warning.
func (r *rig) kill() {
	_ = r.child.Process.Kill()
	_ = r.child.Wait()
}

func config() nats.Config {
	return nats.Config{Topics: []string{topicName}, IdleAfter: 200 * time.Millisecond, Timeout: 2 * time.Second}
}

func open(t testing.TB, at string) *nats.Broker {
	t.Helper()
	b, err := nats.Open(t.Context(), at, config())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (r *rig) harness(t testing.TB) brokertest.Harness {
	return brokertest.Harness{
		Broker: open(t, r.url), Topic: topicName, MissingTopic: "missing",
		Again: func(t testing.TB) settle.Broker { return open(t, r.url) },
		Log:   r.log,
		Foreign: func(t testing.TB, key string, value []byte, headers map[string]string) {
			m := natsgo.NewMsg(topicName + "." + strconv.Itoa(settle.PartitionOf(key, 16)))
			m.Data = value
			for k, v := range headers {
				m.Header.Set(k, v)
			}
			if _, err := r.js(t).PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		},
		Restart: r.restart,
		Lossy:   r.lossy,
		Recreate: func(t testing.TB) {
			if err := r.js(t).DeleteStream(t.Context(), nats.StreamName(topicName)); err != nil {
				t.Fatal(err)
			}
			if err := open(t, r.url).Close(); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func (r *rig) js(t testing.TB) jetstream.JetStream {
	t.Helper()
	nc, err := natsgo.Connect(eachServer(r.url), natsgo.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// eachServer writes a URL as the client itself reads it.
func eachServer(at string) string {
	at, _, _ = strings.Cut(at, "?")
	user, hosts, is := strings.Cut(at, "@")
	if !is {
		return at
	}
	return user + "@" + strings.ReplaceAll(hosts, ",", ","+user+"@")
}

func (r *rig) restart(t testing.TB) {
	t.Helper()
	r.kill()
	u, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	r.start(t, u.Port())
}

func (r *rig) lossy(t testing.TB) (settle.Broker, func() int) {
	t.Helper()
	_, target, _ := strings.Cut(r.url, "@")
	proxy, err := drill.OpenProxy(drill.ProxyConfig{Target: target, Witness: func() drill.Witness { return &drill.TextWitness{Text: `"stream":"` + topicName + `"`} }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- proxy.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	b := open(t, strings.Replace(r.url, target, proxy.Addr(), 1))
	return b, func() int {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return proxy.LoseAnswers(ctx, 50*time.Millisecond)
	}
}

// log reads the stream directly, once it has a leader.
func (r *rig) log(t testing.TB) []settle.Record {
	t.Helper()
	js := r.js(t)
	for end := time.Now().Add(time.Minute); ; {
		all, err := readAll(t.Context(), js)
		if err == nil {
			return all
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func readAll(ctx context.Context, js jetstream.JetStream) (all []settle.Record, err error) {
	stream, err := js.Stream(ctx, nats.StreamName(topicName))
	if err != nil {
		return nil, err
	}
	for seq := max(stream.CachedInfo().State.FirstSeq, 1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(ctx, seq)
		if err != nil {
			return nil, err
		}
		n, _ := strconv.Atoi(strings.TrimPrefix(m.Subject, topicName+"."))
		rec := settle.Record{Position: int64(seq), Raw: m.Data, At: settle.Coordinates{Topic: topicName, Partition: n, Offset: int64(seq)}}
		rec.Event, rec.DecodeErr = settle.DecodeEnvelope(m.Data, nil)
		all = append(all, rec)
	}
	return all, nil
}
