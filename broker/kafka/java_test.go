package kafka_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/kafka"
)

// java runs testdata/Interop.java with the clients that the service kafka has
// in its cache, and returns what it prints.
func java(t testing.TB, args ...string) []string {
	t.Helper()
	if _, err := exec.LookPath("javac"); err != nil {
		t.Fatal("a JDK of 17 or newer is needed; `scripts/test all` installs one")
	}
	cmd := exec.CommandContext(t.Context(), "java", append([]string{"-Dfile.encoding=UTF-8", "-Xmx256m", "-cp", jarsOfKafka(t) + "/*", filepath.Join("testdata", "Interop.java")}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("java %v: %v\n%s", args, err, said.String())
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

func jarsOfKafka(t testing.TB) string {
	t.Helper()
	cache := os.Getenv("SETTLE_CACHE_DIR")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(user, "settle")
	}
	pom, err := os.ReadFile(filepath.Join("..", "..", "scripts", "services.d", "kafka", "pom.xml"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(pom)
	dir := filepath.Join(cache, "kafka-"+hex.EncodeToString(sum[:])[:16])
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("`scripts/services up kafka` fetches Java's clients: %v", err)
	}
	return dir
}

func TestJavaAndSettleExchangeEventsOnOneTopicAndAgreeOnThePartitionOfEachKey(t *testing.T) {
	at := serverForTest(t)
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("runs with SETTLE_TEST_ALL=1: it needs a JDK")
	}
	const n = 10_000
	r := newRig(t, at)
	r.make(t, 12, nil)
	host := strings.TrimPrefix(at, "kafka://")
	partitions := java(t, "produce", host, r.topic, strconv.Itoa(n))
	if len(partitions) != n {
		t.Fatalf("Java says %d partitions", len(partitions))
	}
	b := r.open(t, kafka.Config{})
	defer b.Close()
	ours := map[string]settle.Message{}
	places := map[string]settle.Coordinates{}
	var batch []settle.Message
	for i := range n {
		key := fmt.Sprint("order-", i)
		if i%2 == 1 {
			key = fmt.Sprint("订单-", i)
		}
		m := r.messageOf(key, 1, 0)
		m.Event.Payload = []byte(`{"名":"值"}`)
		batch = append(batch, m)
		ours[m.Event.ID] = m
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i, receipt := range b.Publish(ctx, batch) {
		if receipt.Err != nil {
			t.Fatal(receipt.Err)
		}
		places[batch[i].Event.ID] = receipt.At
		if java := partitions[i]; java != strconv.Itoa(receipt.At.Partition) {
			t.Fatalf("key %s is in partition %d, Java puts it into %s", batch[i].Event.AggregateID, receipt.At.Partition, java)
		}
	}
	got := newSink()
	leave := r.join(t, b, "g-"+r.topic, got)
	fromJava := 0
	for _, rec := range got.await(t, 2*n) {
		if rec.DecodeErr != nil {
			t.Fatalf("record at %+v: %v", rec.At, rec.DecodeErr)
		}
		if id, is := strings.CutPrefix(rec.Event.ID, "java-"); is {
			fromJava++
			if rec.Headers["traceparent"] != "trace-"+id || rec.Key != rec.Event.AggregateID || string(rec.Event.Payload) != `{"n":`+id+`}` {
				t.Fatalf("Java's event came as %+v with headers %v", rec.Event, rec.Headers)
			}
		}
	}
	leave()
	if fromJava != n {
		t.Errorf("%d events of Java's came", fromJava)
	}
	lines := java(t, "consume", host, r.topic, strconv.Itoa(2*n))
	if len(lines) != n {
		t.Fatalf("Java read %d events of ours", len(lines))
	}
	for _, line := range lines {
		f := strings.SplitN(line, "\t", 5)
		m, known := ours[f[0]]
		if !known {
			t.Fatalf("Java read %q", line)
		}
		if at := places[f[0]]; f[1] != m.Event.AggregateID || f[2] != strconv.Itoa(at.Partition) || f[3] != fmt.Sprint(at.Offset) || f[4] != string(settle.AppendEnvelope(nil, m.Event)) {
			t.Fatalf("Java read %q, published was %+v at %+v", line, m.Event, at)
		}
	}
}
