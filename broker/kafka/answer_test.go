package kafka_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/kafka"
)

// answering is a fake whose answers to publishes and commits are planted.
func answering(t testing.TB, topics ...string) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, topics...), kfake.GroupMinSessionTimeout(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

// refusePublish answers publishes that wrong says so of with an error.
func refusePublish(cluster *kfake.Cluster, wrong func(topic [16]byte) *kerr.Error) {
	cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := r.(*kmsg.ProduceRequest)
		if len(req.Topics) == 0 {
			return nil, nil, false
		}
		said := wrong(req.Topics[0].TopicID)
		if said == nil {
			return nil, nil, false
		}
		answer := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range req.Topics {
			t := kmsg.NewProduceResponseTopic()
			t.Topic, t.TopicID = topic.Topic, topic.TopicID
			for _, partition := range topic.Partitions {
				p := kmsg.NewProduceResponseTopicPartition()
				p.Partition, p.ErrorCode = partition.Partition, said.Code
				t.Partitions = append(t.Partitions, p)
			}
			answer.Topics = append(answer.Topics, t)
		}
		return answer, nil, true
	})
}

// A broker says INVALID_RECORD of a whole batch when it dislikes one record.
func TestRecordsThatWereRefusedForTheCompanyTheyWereInAreSentByThemselves(t *testing.T) {
	cluster := answering(t, "orders")
	var refused atomic.Int64
	refusePublish(cluster, func([16]byte) *kerr.Error {
		if refused.Add(1) == 2 { // behind the one that goes alone
			return kerr.InvalidRecord
		}
		return nil
	})
	r := newRig(t, "kafka://"+cluster.ListenAddrs()[0])
	r.topic = "orders"
	b := r.open(t, kafka.Config{})
	defer b.Close()
	var batch []settle.Message
	for i := range 3000 {
		batch = append(batch, r.messageOf(fmt.Sprint("k", i%7), int64(i/7+1), 0))
	}
	left := batch
	for tries := 0; len(left) > 0 && tries < 5; tries++ {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		var again []settle.Message
		for i, receipt := range b.Publish(ctx, left) {
			if settle.IsPermanent(receipt.Err) {
				t.Errorf("event %s is refused for good: %v", left[i].ID, receipt.Err)
			}
			if receipt.Err != nil {
				again = append(again, left[i])
			}
		}
		cancel()
		left = again
	}
	if n := r.checkOrder(t); n != len(batch) || refused.Load() == 0 {
		t.Errorf("%d of %d events are stored, %d requests were answered", n, len(batch), refused.Load())
	}
}

func TestTooFewReplicasAreTheTopicsTroubleAndOthersGoOn(t *testing.T) {
	cluster := answering(t, "poor", "sound")
	poor := cluster.TopicInfo("poor").TopicID
	refusePublish(cluster, func(topic [16]byte) *kerr.Error {
		if topic == poor {
			return kerr.NotEnoughReplicas
		}
		return nil
	})
	r := newRig(t, "kafka://"+cluster.ListenAddrs()[0])
	b := r.open(t, kafka.Config{})
	defer b.Close()
	for topic, want := range map[string]bool{"poor": false, "sound": true} {
		r.topic = topic
		receipt := publishOne(t, b, r.messageOf("k", 1, 0))
		if want != (receipt.Err == nil) || !want && settle.ScopeOf(receipt.Err) != settle.ScopeTopic {
			t.Errorf("%s: got %v", topic, receipt.Err)
		}
	}
}

func TestPositionsThatCanNotBeCommittedAreToldOnceAndTriedAgain(t *testing.T) {
	cluster := answering(t, "orders")
	var refused atomic.Int64
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if refused.Add(1) > 5 {
			return nil, nil, false
		}
		req := r.(*kmsg.OffsetCommitRequest)
		answer := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, topic := range req.Topics {
			t := kmsg.NewOffsetCommitResponseTopic()
			t.Topic, t.TopicID = topic.Topic, topic.TopicID
			for _, partition := range topic.Partitions {
				p := kmsg.NewOffsetCommitResponseTopicPartition()
				p.Partition, p.ErrorCode = partition.Partition, kerr.GroupAuthorizationFailed.Code
				t.Partitions = append(t.Partitions, p)
			}
			answer.Topics = append(answer.Topics, t)
		}
		return answer, nil, true
	})
	r := newRig(t, "kafka://"+cluster.ListenAddrs()[0])
	r.topic = "orders"
	var j journal
	b := r.open(t, kafka.Config{Log: j.logger(), SessionTimeout: 3 * time.Second})
	defer b.Close()
	s := newSink()
	leave := r.join(t, b, "g", s)
	r.publish(t, b, 1, 3)
	s.await(t, 3)
	j.await(t, "positions are committed again")
	await(t, "the lag to end", func() bool { return r.lag(t, "g") == 0 })
	leave()
	if lines := j.lines("could not be committed"); len(lines) != 1 {
		t.Errorf("it is told %d times: %q", len(lines), lines)
	}
}
