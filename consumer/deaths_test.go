package consumer_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/kafka"
	"github.com/settlemq/settle/broker/rabbitmq"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/internal/services"
)

// What a process that is a member of a group, and nothing else, is told.
const (
	memberBroker = "SETTLE_TEST_MEMBER_BROKER"
	memberStore  = "SETTLE_TEST_MEMBER_STORE"
	memberTopic  = "SETTLE_TEST_MEMBER_TOPIC"
)

const deadlyType = "thing.kills"

func groupOf(topic string) string { return "g-" + topic }

// openBroker joins as the same static member each time where there are such: a
// restart has its partitions at once.
func openBroker(ctx context.Context, at, topic string) (settle.Broker, error) {
	if strings.HasPrefix(at, "kafka://") {
		return kafka.Open(ctx, at, kafka.Config{Topics: []string{topic}, Partitions: 2, Replicas: 1, InstanceID: "member", SessionTimeout: 30 * time.Second, ConnectTimeout: time.Minute})
	}
	return rabbitmq.Open(ctx, at, rabbitmq.Config{Topics: []string{topic}, Groups: []string{groupOf(topic)}, Partitions: 2, ConnectTimeout: time.Minute})
}

// TestAsAMember is the process of a member, started by the test below: it works
// until its standard input ends, or an event kills it.
func TestAsAMember(t *testing.T) {
	topic := os.Getenv(memberTopic)
	if topic == "" {
		t.Skip("is a process of another test")
	}
	if err := beMember(os.Getenv(memberBroker), os.Getenv(memberStore), topic); err != nil {
		t.Fatal(err)
	}
}

func beMember(at, store, topic string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		stop()
	}()
	db, err := dial.Store(ctx, store, dial.StoreConfig{})
	if err != nil {
		return err
	}
	b, err := openBroker(ctx, at, topic)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	c := consumer.New(groupOf(topic), b, db.Inbox, consumer.Config{Topics: []string{topic}, LeaseTTL: 300 * time.Millisecond, Retry: settle.Backoff{Base: 10 * time.Millisecond, Attempts: 2}})
	c.Handle("thing.done", func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO effects (event_id) VALUES (?)", e.ID)
		return err
	})
	c.Handle(deadlyType, func(context.Context, *sql.Tx, *settle.Event) error {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	})
	return errors.Join(c.Run(ctx), b.Close(), db.Close())
}

func TestAnEventThatKillsTheProcessBecomesADeadLetterOnKafka(t *testing.T) {
	at, topic := services.URL(t, "SETTLE_TEST_KAFKA", "kafka"), "kills-"+settle.NewID()
	admin, err := kadm.NewOptClient(kgo.SeedBrokers(strings.TrimPrefix(at, "kafka://")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = admin.DeleteTopics(context.Background(), topic)
		admin.Close()
	})
	killTillDead(t, at, topic)
}

func TestAnEventThatKillsTheProcessBecomesADeadLetterOnRabbitMQ(t *testing.T) {
	at, topic := services.URL(t, "SETTLE_TEST_RABBITMQ", "rabbitmq"), "kills-"+settle.NewID()
	t.Cleanup(func() { removeFromRabbitMQ(t, at, topic) })
	killTillDead(t, at, topic)
}

// removeFromRabbitMQ deletes what openBroker has made.
func removeFromRabbitMQ(t *testing.T, at, topic string) {
	conn, err := amqp.Dial(strings.Replace(at, "rabbitmq://", "amqp://", 1))
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		t.Error(err)
		return
	}
	inner := topic + "." + groupOf(topic)
	for _, name := range []string{"0", "1", "dead", "members"} {
		if _, err := ch.QueueDelete(inner+"."+name, false, false, false); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{inner, topic} {
		if err := ch.ExchangeDelete(name, false, false); err != nil {
			t.Error(err)
		}
	}
}

func killTillDead(t *testing.T, at, topic string) {
	file := url.URL{Scheme: "sqlite", Path: filepath.Join(t.TempDir(), "things.db")}
	db, err := dial.Store(t.Context(), file.String(), dial.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	g := &kafkaGroup{t: t, db: db}
	g.write("CREATE TABLE effects (no INTEGER PRIMARY KEY, event_id TEXT UNIQUE)")
	deadly := publishDeadly(t, at, topic, 12)
	deaths := 0
	for end := time.Now().Add(2 * time.Minute); ; {
		if time.Now().After(end) {
			t.Fatalf("after %d deaths it is no dead letter", deaths)
		}
		if killed := runMember(t, g, at, file.String(), topic); !killed {
			break
		}
		deaths++
	}
	if n := g.number("SELECT count(*) FROM effects"); n != 11 {
		t.Errorf("%d effects of the 11 other events", n)
	}
	if n := g.number("SELECT count(*) FROM t_dead_letter WHERE event_id = '" + deadly + "' AND attempts = 2"); n != 1 || g.dead() != 1 {
		t.Errorf("%d of %d dead letters are of the deadly event with both attempts", n, g.dead())
	}
	t.Logf("it killed %d processes", deaths)
	if deaths < 3 {
		t.Errorf("it killed %d processes, with two attempts at least 3 are wanted", deaths)
	}
}

func (g *kafkaGroup) dead() int {
	return g.number("SELECT count(*) FROM t_dead_letter WHERE class = 'kills_process'")
}

// publishDeadly publishes events of which one kills, and returns that one's id.
func publishDeadly(t *testing.T, at, topic string, n int) (deadly string) {
	t.Helper()
	b, err := openBroker(t.Context(), at, topic)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	var batch []settle.Message
	for i := range n {
		e := &settle.Event{Type: "thing.done", AggregateID: fmt.Sprint("k", i), Topic: topic, Payload: []byte("{}")}
		if i == n/2 {
			e.Type = deadlyType
		}
		if err := e.Prepare(time.Now()); err != nil {
			t.Fatal(err)
		}
		if i == n/2 {
			deadly = e.ID
		}
		batch = append(batch, settle.Message{ID: e.ID, Event: e})
	}
	for _, r := range b.Publish(t.Context(), batch) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return deadly
}

// runMember runs a process until it is killed, which it reports, or until the
// deadly event is a dead letter and all others are done.
func runMember(t *testing.T, g *kafkaGroup, at, store, topic string) (killed bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestAsAMember$")
	cmd.Env = append(os.Environ(), memberBroker+"="+at, memberStore+"="+store, memberTopic+"="+topic)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	patience := time.After(time.Minute)
	for {
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
				return true
			}
			if err != nil {
				t.Fatalf("the process of a member: %v\n%s", err, said.String())
			}
			return false
		case <-tick.C:
			if g.dead() == 1 && g.number("SELECT count(*) FROM effects") == 11 {
				_ = in.Close()
			}
		case <-patience:
			_ = cmd.Process.Kill()
			<-ended
			t.Fatalf("the process of a member neither ends nor is killed: %d effects, %d dead\n%s", g.number("SELECT count(*) FROM effects"), g.dead(), said.String())
		}
	}
}
