package kafka_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/brokertest"
	"github.com/settlemq/settle/broker/kafka"
	"github.com/settlemq/settle/internal/services"
)

// patience is what a busy machine needs to move partitions.
const patience = time.Minute

func TestKafkaKeepsTheContract(t *testing.T) {
	at := serverForTest(t)
	brokertest.Run(t, func(t testing.TB) brokertest.Harness {
		h := newRig(t, at).harness(t)
		h.Without = []string{brokertest.AbilityRestart}
		return h
	})
}

func TestAFakeOfKafkaKeepsTheContractThroughKills(t *testing.T) {
	brokertest.Run(t, func(t testing.TB) brokertest.Harness {
		f := newFake(t)
		h := newRig(t, f.url()).harness(t)
		h.Restart = f.restart
		return h
	})
}

func serverForTest(t testing.TB) string {
	t.Helper()
	return services.URL(t, "SETTLE_TEST_KAFKA", "kafka")
}

// fake is Kafka inside of this process, on files.
type fake struct {
	t       testing.TB
	dir     string
	cluster *kfake.Cluster
	port    int
}

func newFake(t testing.TB) *fake {
	f := &fake{t: t, dir: t.TempDir()}
	f.start()
	t.Cleanup(func() { f.cluster.Close() })
	return f
}

func (f *fake) start() {
	f.t.Helper()
	options := []kfake.Opt{
		kfake.NumBrokers(1), kfake.DataDir(f.dir), kfake.SyncWrites(), kfake.GroupMinSessionTimeout(100 * time.Millisecond),
	}
	if f.port != 0 {
		options = append(options, kfake.Ports(f.port))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.cluster = cluster
}

func (f *fake) url() string { return "kafka://" + strings.Join(f.cluster.ListenAddrs(), ",") }

// restart ends the fake and starts another on its files and port.
func (f *fake) restart(t testing.TB) {
	t.Helper()
	f.stop(t)
	f.start()
}

func (f *fake) stop(t testing.TB) {
	t.Helper()
	_, port, _ := strings.Cut(f.cluster.ListenAddrs()[0], ":")
	f.port = atoi(t, port)
	f.cluster.Close()
}

// rig is a cluster and a topic of the test's own.
type rig struct {
	at, topic string
	raw       *kgo.Client
	admin     *kadm.Client
}

func newRig(t testing.TB, at string) *rig {
	t.Helper()
	r := &rig{at: at, topic: "suite-" + settle.NewID()}
	raw, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(strings.TrimPrefix(at, "kafka://"), ",")...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(raw.Close)
	r.raw, r.admin = raw, kadm.NewClient(raw)
	t.Cleanup(func() { _, _ = r.admin.DeleteTopics(context.Background(), r.topic) })
	return r
}

func (r *rig) config() kafka.Config {
	return kafka.Config{Topics: []string{r.topic}, Partitions: 6, SessionTimeout: 3 * time.Second}
}

func (r *rig) open(t testing.TB, cfg kafka.Config) *kafka.Broker {
	t.Helper()
	b, err := kafka.Open(t.Context(), r.at, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (r *rig) harness(t testing.TB) brokertest.Harness {
	return brokertest.Harness{
		Broker: r.open(t, r.config()), Topic: r.topic, MissingTopic: "missing-" + settle.NewID(), AssignsPartitions: true, Patience: patience,
		Again:   func(t testing.TB) settle.Broker { return r.open(t, r.config()) },
		Log:     r.log,
		Foreign: r.foreign,
		Lossy: func(t testing.TB) (settle.Broker, func() int) {
			d, cfg := newLossyDial(), r.config()
			cfg.Dial = d.dial
			return r.open(t, cfg), d.lose
		},
		Recreate: func(t testing.TB) {
			if _, err := r.admin.DeleteTopics(t.Context(), r.topic); err != nil {
				t.Fatal(err)
			}
			if err := r.open(t, r.config()).Close(); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func (r *rig) foreign(t testing.TB, key string, value []byte, headers map[string]string) {
	t.Helper()
	record := &kgo.Record{Topic: r.topic, Key: []byte(key), Value: value}
	for k, v := range headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: k, Value: []byte(v)})
	}
	if err := r.raw.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// log reads the topic from its beginning to its end, as those do who read what
// is committed.
func (r *rig) log(t testing.TB) []settle.Record {
	t.Helper()
	ends, err := r.admin.ListCommittedOffsets(t.Context(), r.topic)
	if err != nil {
		t.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	reader, err := kgo.NewClient(kgo.SeedBrokers(r.raw.OptValue(kgo.SeedBrokers).([]string)...), kgo.ConsumeTopics(r.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var all []settle.Record
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(left) > 0 {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("the log can't be read to its end: %v are missing", left)
		}
		fetches.EachRecord(func(f *kgo.Record) {
			rec := settle.Record{Position: f.Offset, Raw: f.Value, At: settle.Coordinates{Topic: f.Topic, Partition: int(f.Partition), Offset: f.Offset}}
			if !f.Attrs.IsControl() {
				rec.Event, rec.DecodeErr = settle.DecodeEnvelope(f.Value, nil)
				all = append(all, rec)
			}
			if f.Offset+1 >= left[f.Partition] {
				delete(left, f.Partition)
			}
		})
	}
	return all
}

func atoi(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
