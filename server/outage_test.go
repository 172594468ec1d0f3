package server_test

import (
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/settlemq/settle/internal/services"
	"github.com/settlemq/settle/server"
)

// door stands before a server, and can be shut.
type door struct {
	t      *testing.T
	target string

	mu    sync.Mutex
	at    net.Listener
	conns []net.Conn
	all   sync.WaitGroup
}

// openDoor opens one at a port, or at any where that is 0.
func openDoor(t *testing.T, target, port string) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{t: t, target: target, at: l}
	d.all.Go(d.let)
	t.Cleanup(d.shut)
	return d
}

func (d *door) let() {
	for {
		in, err := d.at.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", d.target)
		if err != nil {
			_ = in.Close()
			continue
		}
		d.mu.Lock()
		d.conns = append(d.conns, in, out)
		d.mu.Unlock()
		for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
			d.all.Go(func() {
				_, _ = io.Copy(way[0], way[1])
				_ = way[0].Close()
			})
		}
	}
}

// shut ends all that goes through.
func (d *door) shut() {
	_ = d.at.Close()
	d.mu.Lock()
	for _, c := range d.conns {
		_ = c.Close()
	}
	d.mu.Unlock()
	d.all.Wait()
}

func (d *door) port() string {
	_, port, _ := net.SplitHostPort(d.at.Addr().String())
	return port
}

// outage is a broker that can be taken away and comes back.
type outage struct {
	url, topic string
	down, up   func()
}

func ofKafka(t *testing.T) outage {
	dir, p := t.TempDir(), port(t)
	var c *kfake.Cluster
	up := func() {
		var err error
		if c, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(p), kfake.DataDir(dir), kfake.SyncWrites()); err != nil {
			t.Fatal(err)
		}
	}
	up()
	t.Cleanup(func() { c.Close() })
	return outage{"kafka://" + strings.Join(c.ListenAddrs(), ","), "order", func() { c.Close() }, up}
}

func ofRabbitMQ(t *testing.T) outage {
	u, err := url.Parse(services.URL(t, "SETTLE_TEST_RABBITMQ", "rabbitmq"))
	if err != nil {
		t.Fatal("SETTLE_TEST_RABBITMQ can't be read")
	}
	topic := rabbitTopic(t, u.String(), "g")
	target := u.Host
	d := openDoor(t, target, "0")
	port := d.port()
	u.Host = "127.0.0.1:" + port
	return outage{u.String(), topic, func() { d.shut() }, func() { d = openDoor(t, target, port) }}
}

func TestAnOutageOfEachBrokerIsSeenByReadyzAndOver(t *testing.T) {
	for name, open := range map[string]func(*testing.T) outage{"Kafka": ofKafka, "RabbitMQ": ofRabbitMQ} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := open(t)
			at, db := database(t)
			s, log, stop := start(t, server.Config{Sources: map[string]server.SourceConfig{"order": {
				DB: at, Broker: o.url, Topics: []string{o.topic}, Groups: []string{"g"}, BrokerDurability: server.DurabilityLax, Relay: server.RelayConfig{LeaseTTL: time.Second},
				Bridges: map[string]server.BridgeConfig{"theirs": {Ladder: server.LadderConfig{Topic: o.topic}}},
			}}})
			both := func(state server.State) func(server.Health) bool {
				return func(h server.Health) bool {
					return h.Sources["order"].State == state && h.Sources["order"].Bridges["theirs"].State == state
				}
			}
			await(t, s, log, "leading", both(server.StateLeading))
			o.down()
			h := await(t, s, log, "unreachable", both(server.StateUnreachable))
			if h.Ready || h.Sources["order"].What != "broker" || h.Sources["order"].Bridges["theirs"].What != "broker" {
				t.Errorf("while the broker is away it stands so: %+v", h)
			}
			tx, err := db.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(t.Context(), `INSERT INTO t_outbox_event (event_id, event_type, topic, aggregate_id, payload) VALUES ('e-1', 'Counted', ?, 'k', '{}')`, o.topic); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			o.up()
			await(t, s, log, "sent", func(h server.Health) bool { return both(server.StateLeading)(h) && h.Sources["order"].Published == 1 })
			stop()
			if n := strings.Count(log.String(), "broker unreachable; trying again"); n != 2 { // the source and its bridge
				t.Errorf("the outage is told %d times:\n%s", n, log)
			}
		})
	}
}
