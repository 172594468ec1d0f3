//go:build unix

package nats_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/brokertest"
	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/doctor/doctortest"
	"github.com/settlemq/settle/internal/services"
)

// three is a cluster of the test's own.
type three struct {
	*services.Service
	kills int
}

func newThree(t testing.TB) *three {
	t.Helper()
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("only with SETTLE_TEST_ALL=1: it starts three servers")
	}
	return &three{Service: services.Up(t, []string{"nats3"})[0]}
}

// clusterPatience is what a busy machine needs for elections.
const clusterPatience = 2 * time.Minute

func (c *three) harness(t testing.TB) brokertest.Harness {
	r := &rig{url: c.URL()}
	t.Cleanup(func() { c.clear(t, r) })
	h := r.harness(t)
	h.Patience = clusterPatience
	h.Restart = func(testing.TB) {
		n := c.kills%3 + 1
		c.kills++
		c.Node(n).Kill()
		c.Node(n).Start()
	}
	h.Lossy = func(t testing.TB) (settle.Broker, func() int) { // the proxy stands before one of them
		first, _, _ := strings.Cut(r.url, ",")
		return (&rig{url: first}).lossy(t)
	}
	return h
}

// clear leaves the cluster as it was found.
func (c *three) clear(t testing.TB, r *rig) {
	ctx, cancel := context.WithTimeout(context.Background(), clusterPatience)
	defer cancel()
	js := r.js(t)
	err := errors.New("not yet")
	for ; err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		err = js.DeleteStream(ctx, nats.StreamName(topicName))
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the topic is still there after %s: %v", clusterPatience, err)
	}
}

func TestThreeServersKeepTheContractThroughKillsOfOne(t *testing.T) {
	c := newThree(t)
	brokertest.Run(t, c.harness)
}

func TestATopicOfAClusterHasThreeCopiesAndOneOfAServerAloneHasOne(t *testing.T) {
	c := newThree(t)
	for at, want := range map[string]int{c.URL(): 3, c.URL() + "&replicas=1": 1} {
		r := &rig{url: at}
		b := open(t, at)
		stream, err := r.js(t).Stream(t.Context(), nats.StreamName(topicName))
		if err != nil {
			t.Fatal(err)
		}
		if got := stream.CachedInfo().Config.Replicas; got != want {
			t.Errorf("the topic has %d copies, want %d", got, want)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		c.clear(t, r)
	}
}

func TestADoctorSaysWhatAClusterOfThreeIsWorth(t *testing.T) {
	c := newThree(t)
	b := open(t, c.URL())
	list, err := nats.NewDoctor(c.URL(), nats.DoctorConfig{Timeout: time.Minute}).Check(t.Context())
	if err != nil || doctor.Worst(list) != doctor.OK {
		t.Errorf("of a sound cluster it finds %+v, %v", list, err)
	}
	c.Node(3).Kill()
	eventually(t, "the copy to be missed", func() bool {
		by := diagnose(t, c.URL(), nats.DoctorConfig{})
		return by["stream_copies_now"].Verdict == doctor.Warn && strings.Contains(by["stream_copies_now"].Found, "node-3") &&
			by["servers"].Verdict == doctor.Warn && by["sync_interval"].Verdict == doctor.Warn
	})
	c.Node(3).Start()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	c.clear(t, &rig{url: c.URL()})
	one := open(t, c.URL()+"&replicas=1")
	defer one.Close()
	doctortest.Says(t, diagnose(t, c.URL(), nats.DoctorConfig{}), "stream_copies", doctor.Bad, "one copy", "nats stream edit "+topicName+" --replicas 3")
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(clusterPatience); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
