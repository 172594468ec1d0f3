package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/kafka"
)

// toKafka is Kafka and what is measured on it.
func toKafka() target {
	return target{name: kafkaName, schemes: []string{"kafka"}, env: "SETTLE_TEST_KAFKA", service: "kafka", connect: connectKafka, keeps: true, drainShare: 1, window: toKafkaWindow, published: 200_000, read: 300_000,
		publishers: []way{publishRawKafka(), publishSettle(openKafka), publishWatermillKafka()},
		readers:    []way{readRawKafka(), readSettle(openKafka), consumeSettle(openKafka), readWatermillKafka()},
		carriers:   []contender{rawToKafka(), leanTo(kafkaName, openKafka), settleTo(kafkaName, openKafka), replicationToKafka(), forwarderToKafka()}}
}

const kafkaName = "kafka"

// toKafkaWindow is how many records may be unacknowledged.
const toKafkaWindow = 1000

func openKafka(ctx context.Context, at string) (settle.Broker, error) {
	return kafka.Open(ctx, at, kafka.Config{})
}

// kafkaHosts are the servers of a URL, as clients of Kafka want them.
func kafkaHosts(at string) []string {
	_, hosts, _ := strings.Cut(at, "://")
	hosts, _, _ = strings.Cut(hosts, "/")
	return strings.Split(hosts, ",")
}

// kafkaPartitions are those of a topic that Settle makes.
const kafkaPartitions = 12

type kafkaServer struct {
	cl    *kgo.Client
	admin *kadm.Client
}

func connectKafka(ctx context.Context, at string) (broker, error) {
	if strings.Contains(at, "@") || strings.Contains(at, "?") {
		return nil, errors.New("the bench speaks to Kafka without a password and without TLS: kafka://host:port")
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(kafkaHosts(at)...))
	if err != nil {
		return nil, err
	}
	if err := cl.Ping(ctx); err != nil {
		cl.Close()
		return nil, fmt.Errorf("connect to Kafka: %w", err)
	}
	return &kafkaServer{cl, kadm.NewClient(cl)}, nil
}

func (s *kafkaServer) close() error {
	s.cl.Close()
	return nil
}

func (s *kafkaServer) describe(ctx context.Context) (string, error) {
	versions, err := s.admin.ApiVersions(ctx)
	if err != nil {
		return "", err
	}
	guess := ""
	for _, v := range versions {
		guess = v.VersionGuess()
	}
	return fmt.Sprintf("Kafka %s, %d node, acks of all replicas in sync, %d partitions, zstd", strings.TrimPrefix(guess, "v"), len(versions), kafkaPartitions), nil
}

func (s *kafkaServer) create(ctx context.Context, topic string, _ ...string) error {
	answer, err := s.admin.CreateTopic(ctx, kafkaPartitions, -1, nil, topic)
	return errors.Join(err, answer.Err)
}

func (s *kafkaServer) remove(ctx context.Context, topic string, groups ...string) error {
	_, err := s.admin.DeleteTopics(ctx, topic)
	if len(groups) > 0 {
		_, gone := s.admin.DeleteGroups(ctx, groups...)
		err = errors.Join(err, gone)
	}
	return err
}

func (s *kafkaServer) held(ctx context.Context, topic, _ string) (n int, err error) {
	ends, err := s.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, err
	}
	ends.Each(func(o kadm.ListedOffset) {
		n += int(o.Offset)
		err = errors.Join(err, o.Err)
	})
	return n, err
}
