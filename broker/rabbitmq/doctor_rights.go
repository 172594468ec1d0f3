package rabbitmq

import (
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"
)

// impossible is what the server refuses after it has looked at the account's
// right, and before it does anything.
func impossible() amqp.Table {
	return amqp.Table{"x-expires": int64(0), "x-priority": "none"}
}

// seeRights finds what the account lacks by asking for what can't be done: who
// has no right is told of that instead.
func (x *examination) seeRights() (map[string][]string, error) {
	lacks := map[string][]string{}
	for _, topic := range probed(slices.Concat(x.missing, x.topics)) {
		asked := map[string]func(ch *amqp.Channel) error{
			"configure": func(ch *amqp.Channel) error {
				_, err := ch.QueueDeclare(queueName(topic, "settle-doctor", 0), true, false, false, false, impossible())
				return err
			},
		}
		if there, err := x.exchangeIsThere(topic); there && err == nil {
			asked["write"] = func(ch *amqp.Channel) error { return refusedPublish(ch, topic) }
		}
		for _, group := range x.groups[topic] {
			asked["read"] = func(ch *amqp.Channel) error {
				_, err := ch.Consume(queueName(topic, group, 0), "", false, false, false, false, impossible())
				return err
			}
		}
		for _, right := range []string{"configure", "write", "read"} {
			if asked[right] == nil {
				continue
			}
			switch err := x.b.alone(x.s, asked[right]); code(err) {
			case amqp.AccessRefused:
				lacks[topic] = append(lacks[topic], right)
			case amqp.PreconditionFailed, amqp.NotFound:
			default:
				return nil, err
			}
		}
	}
	return lacks, nil
}

// refusedPublish hands over a message whose time to live is no number.
func refusedPublish(ch *amqp.Channel, exchange string) error {
	closes := ch.NotifyClose(make(chan *amqp.Error, 1))
	if err := ch.Publish(exchange, "", false, false, amqp.Publishing{Expiration: "none"}); err != nil {
		return err
	}
	// The server answers with the end of the channel, or the connection ends.
	if err := <-closes; err != nil {
		return err
	}
	return errLost
}

// seePlugin asks for an exchange that is there and of another kind. A server
// that does not know the kind ends the connection.
func (x *examination) seePlugin() (bool, error) {
	err := x.b.alone(x.s, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare("amq.fanout", kindHash, true, false, false, false, nil)
	})
	switch code(err) {
	case amqp.PreconditionFailed, amqp.AccessRefused:
		return true, nil
	case amqp.CommandInvalid:
		return false, nil
	}
	return false, err
}
