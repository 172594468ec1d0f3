package dial

import (
	"errors"
	"time"

	"github.com/settlemq/settle/broker/kafka"
	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/broker/rabbitmq"
	"github.com/settlemq/settle/broker/rocketmq"
	"github.com/settlemq/settle/doctor"
)

// ErrNotExamined is returned for a broker of which there are no checks.
var ErrNotExamined = errors.New("there are no checks of this kind of broker")

// BrokerDoctorConfig says what of a broker is examined. The zero value works.
type BrokerDoctorConfig struct {
	// Topics are looked at whether they are there or not. Defaults to none, and
	// then to all that the account may see; on RabbitMQ those that have a group.
	Topics []string
	// Others has all other topics looked at beside Topics. Defaults to false.
	Others bool
	// Groups are the consumer groups of Topics that must be there, of a broker
	// that keeps events only for the groups that it knows (RabbitMQ), or lets only
	// those read (RocketMQ). Defaults to none.
	Groups []string
	// KeepFor is how far back a consumer must be able to read, where a broker keeps
	// what was read (Kafka, NATS, RocketMQ). Defaults to 7 days.
	KeepFor time.Duration
}

// BrokerDoctor returns what examines the broker at a URL and changes nothing in
// it. It does no I/O. A URL that can't be is a *URLError; of the broker in memory
// there are no checks: ErrNotExamined.
func BrokerDoctor(rawURL string, cfg BrokerDoctorConfig) (doctor.Checker, error) {
	if err := CheckBroker(rawURL); err != nil {
		return nil, err
	}
	if isKafka(rawURL) {
		return kafka.NewDoctor(rawURL, kafka.DoctorConfig{Topics: cfg.Topics, Others: cfg.Others, KeepFor: cfg.KeepFor}), nil
	}
	if rabbitmq.IsURL(rawURL) {
		return rabbitmq.NewDoctor(rawURL, rabbitmq.DoctorConfig{Topics: cfg.Topics, Others: cfg.Others, Groups: cfg.Groups}), nil
	}
	if nats.IsURL(rawURL) {
		return nats.NewDoctor(rawURL, nats.DoctorConfig{Topics: cfg.Topics, Others: cfg.Others, KeepFor: cfg.KeepFor}), nil
	}
	if rocketmq.IsURL(rawURL) {
		return rocketmq.NewDoctor(rawURL, rocketmq.DoctorConfig{Topics: cfg.Topics, Others: cfg.Others, Groups: cfg.Groups, KeepFor: cfg.KeepFor}), nil
	}
	return nil, ErrNotExamined
}
