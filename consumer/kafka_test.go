package consumer_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/kafka"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/dial"
)

// kafkaGroup is a group whose broker assigns partitions and keeps positions.
type kafkaGroup struct {
	t     *testing.T
	at    string
	db    *dial.Database
	group string
	all   sync.WaitGroup
}

const kafkaTopic = "things"

func newKafkaGroup(t *testing.T) *kafkaGroup {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	file := url.URL{Scheme: "sqlite", Path: filepath.Join(t.TempDir(), "things.db")}
	db, err := dial.Store(t.Context(), file.String(), dial.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	g := &kafkaGroup{t: t, at: "kafka://" + strings.Join(cluster.ListenAddrs(), ","), db: db, group: "things-group"}
	g.write("CREATE TABLE effects (no INTEGER PRIMARY KEY, event_id TEXT UNIQUE, key TEXT, seq INTEGER)")
	return g
}

func (g *kafkaGroup) write(text string) {
	g.t.Helper()
	tx, err := g.db.Begin(g.t.Context())
	if err == nil {
		if _, err = tx.ExecContext(g.t.Context(), text); err == nil {
			err = tx.Commit()
		}
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *kafkaGroup) number(text string) (n int) {
	g.t.Helper()
	if err := g.db.Reader.QueryRowContext(g.t.Context(), text).Scan(&n); err != nil {
		g.t.Fatal(err)
	}
	return n
}

func (g *kafkaGroup) connect() *kafka.Broker {
	g.t.Helper()
	b, err := kafka.Open(g.t.Context(), g.at, kafka.Config{Declare: true, Partitions: 4, SessionTimeout: time.Second, DrainTimeout: time.Second})
	if err != nil {
		g.t.Fatal(err)
	}
	return b
}

// publish publishes events from one number up to another of each key.
func (g *kafkaGroup) publish(keys, from, to int) {
	g.t.Helper()
	b := g.connect()
	defer func() { _ = b.Close() }()
	var batch []settle.Message
	for seq := from; seq <= to; seq++ {
		for key := range keys {
			e := &settle.Event{Type: "thing.done", AggregateID: fmt.Sprint("k", key), AggregateSeq: int64(seq), Topic: kafkaTopic, Payload: []byte("{}")}
			if err := e.Prepare(time.Now()); err != nil {
				g.t.Fatal(err)
			}
			batch = append(batch, settle.Message{ID: e.ID, Event: e})
		}
	}
	for _, r := range b.Publish(g.t.Context(), batch) {
		if r.Err != nil {
			g.t.Fatal(r.Err)
		}
	}
}

// member joins the group until it is ended; at gets what it handles.
func (g *kafkaGroup) member(at chan<- string) (c *consumer.Consumer[*sql.Tx], end func()) {
	b := g.connect()
	c = consumer.New(g.group, b, g.db.Inbox, consumer.Config{Topics: []string{kafkaTopic}, BatchRows: 8})
	c.Handle("thing.done", func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO effects (event_id, key, seq) VALUES (?, ?, ?)", e.ID, e.AggregateID, e.AggregateSeq)
		select {
		case at <- e.ID:
		default:
		}
		return err
	})
	ctx, cancel := context.WithCancel(g.t.Context())
	g.all.Go(func() {
		if err := c.Run(ctx); err != nil {
			g.t.Error(err)
		}
		_ = b.Close()
	})
	return c, cancel
}

func (g *kafkaGroup) await(what string, ok func() bool) {
	g.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			g.t.Fatalf("not within a minute: %s", what)
		}
	}
}

func TestAGroupWhosePartitionsTheBrokerAssignsHasEachEffectOnceInOrderThoughMembersComeAndGoAndPositionsGoBack(t *testing.T) {
	g := newKafkaGroup(t)
	const keys, each = 20, 10
	g.publish(keys, 1, each/2)
	at := make(chan string)
	_, endFirst := g.member(at)
	<-at // the first is at work: another one takes partitions from it, and then all
	_, endSecond := g.member(at)
	g.publish(keys, each/2+1, each)
	endFirst()
	g.await("all is applied", func() bool { return g.number("SELECT count(*) FROM effects") == keys*each })
	endSecond()
	g.all.Wait()

	admin, err := kadm.NewOptClient(kgo.SeedBrokers(strings.TrimPrefix(g.at, "kafka://")))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	back := kadm.Offsets{}
	for p := range int32(4) {
		back.AddOffset(kafkaTopic, p, 0, -1)
	}
	if err := admin.CommitAllOffsets(t.Context(), g.group, back); err != nil {
		t.Fatal(err)
	}
	third, endThird := g.member(at)
	g.await("all has come again", func() bool { return third.Stats().Duplicate == keys*each })
	endThird()
	g.all.Wait()
	if n := g.number("SELECT count(*) FROM effects"); n != keys*each {
		t.Errorf("%d effects of %d events", n, keys*each)
	}
	if n := g.number("SELECT count(*) FROM (SELECT seq, lag(seq, 1, 0) OVER (PARTITION BY key ORDER BY no) AS before FROM effects) WHERE seq <> before + 1"); n != 0 {
		t.Errorf("%d effects are out of order", n)
	}
	if n := g.number("SELECT count(*) FROM t_consume_partition"); n != 0 {
		t.Errorf("%d positions are kept beside the broker's", n)
	}
}
