package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rabbitmq"
)

// toRabbitMQ is RabbitMQ and what is measured on it.
func toRabbitMQ() target {
	publishers := []way{publishRawRabbitMQ(), publishSettle(openRabbitMQ), publishWatermillRabbitMQ()}
	return target{name: rabbitmqName, schemes: []string{"rabbitmq", "rabbitmqs"}, env: "SETTLE_TEST_RABBITMQ", service: "rabbitmq", connect: connectRabbitMQ, drainShare: 4, window: toRabbitMQWindow, published: 30_000, read: 60_000,
		publishers: publishers, hot: publishers,
		readers:  []way{readRawRabbitMQ(), readSettle(openRabbitMQ), consumeSettle(openRabbitMQ), readWatermillRabbitMQ()},
		carriers: []contender{rawToRabbitMQ(), settleTo(rabbitmqName, openRabbitMQ)}}
}

const rabbitmqName = "rabbitmq"

// toRabbitMQWindow is how many messages may be unconfirmed: Settle's default.
const toRabbitMQWindow = 512

func openRabbitMQ(ctx context.Context, at string) (settle.Broker, error) {
	return rabbitmq.Open(ctx, at, rabbitmq.Config{})
}

// rabbitmqPartitions are the queues of a group that Settle makes.
const rabbitmqPartitions = 8

// amqpURL is a URL as clients of RabbitMQ want it.
func amqpURL(at string) string { return "amqp" + strings.TrimPrefix(at, "rabbitmq") }

func queueOf(topic, group string, n int) string { return topic + "." + group + "." + strconv.Itoa(n) }

type rabbitmqServer struct {
	at   string
	conn *amqp.Connection
}

func connectRabbitMQ(_ context.Context, at string) (broker, error) {
	conn, err := amqp.Dial(amqpURL(at))
	if err != nil {
		return nil, fmt.Errorf("connect to RabbitMQ: %w", err)
	}
	return &rabbitmqServer{at, conn}, nil
}

func (s *rabbitmqServer) close() error { return s.conn.Close() }

func (s *rabbitmqServer) describe(context.Context) (string, error) {
	return fmt.Sprintf("RabbitMQ %v, 1 node, %d quorum queues behind a consistent hash, persistent, mandatory, confirms", s.conn.Properties["version"], rabbitmqPartitions), nil
}

// create leaves the topology to Settle: all ways have the same.
func (s *rabbitmqServer) create(ctx context.Context, topic string, groups ...string) error {
	b, err := rabbitmq.Open(ctx, s.at, rabbitmq.Config{Topics: []string{topic}, Groups: groups, Partitions: rabbitmqPartitions})
	if err != nil {
		return err
	}
	return b.Close()
}

func (s *rabbitmqServer) remove(_ context.Context, topic string, groups ...string) error {
	ch, err := s.conn.Channel()
	if err != nil {
		return err
	}
	for _, group := range groups {
		queues := []string{topic + "." + group + ".dead", topic + "." + group + ".members"}
		for n := range rabbitmqPartitions {
			queues = append(queues, queueOf(topic, group, n))
		}
		for _, q := range queues {
			_, gone := ch.QueueDelete(q, false, false, false)
			err = errors.Join(err, gone)
		}
		err = errors.Join(err, ch.ExchangeDelete(topic+"."+group, false, false))
	}
	return errors.Join(err, ch.ExchangeDelete(topic, false, false), ch.Close())
}

func (s *rabbitmqServer) held(_ context.Context, topic, group string) (n int, err error) {
	ch, err := s.conn.Channel()
	if err != nil {
		return 0, err
	}
	for p := range rabbitmqPartitions {
		q, err := ch.QueueDeclarePassive(queueOf(topic, group, p), true, false, false, false, nil)
		if err != nil {
			return 0, err
		}
		n += q.Messages
	}
	return n, ch.Close()
}
