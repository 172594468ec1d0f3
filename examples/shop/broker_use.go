package shop

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
)

// brokerFile stands in the directory of a shop that uses a broker which others
// use, too: its URL in one line, and what the names of the shop's topic and
// groups begin with in the next. Without it the shop has a broker of its own.
const brokerFile = "broker.url"

// BrokerUse is the broker that a shop uses. URL is empty when it has its own.
type BrokerUse struct{ URL, Prefix string }

// ErrOtherBroker means that a shop uses another broker.
var ErrOtherBroker = errors.New("the shop uses another broker")

// Topic is the topic of all events of the shop.
func (u BrokerUse) Topic() string { return u.Prefix + settle.DefaultTopic }

// Groups are the consumer groups of the shop, as the broker names them.
func (u BrokerUse) Groups() []string {
	var all []string
	for _, name := range serviceNames() {
		all = append(all, u.Prefix+name)
	}
	return all
}

// instance is the name of a process to the broker.
func (u BrokerUse) instance(name string) string {
	if name == "" {
		return ""
	}
	return u.Prefix + name
}

// UseBroker has the shop in dir use the Kafka, RabbitMQ, RocketMQ or NATS at a URL, with a topic and
// groups that no other directory's shop has. The file that holds the URL,
// password included, can be read by its owner alone. A shop that is there
// already may change how its cluster is reached; another one, with which it has
// no host in common, is ErrOtherBroker.
func UseBroker(dir, rawURL string) error {
	if err := CheckBroker(rawURL); err != nil {
		return fmt.Errorf("use broker: %w", err)
	}
	use := BrokerUse{URL: rawURL, Prefix: "shop-" + strings.ToLower(rand.Text()[:8]) + separator(rawURL)}
	if there, _ := Holds(dir); there {
		before, err := Broker(dir)
		if err != nil || before.URL == "" || !sameCluster(before.URL, rawURL) {
			return fmt.Errorf("use broker for the shop in %s: %w", dir, errors.Join(ErrOtherBroker, err))
		}
		use.Prefix = before.Prefix
	}
	path := filepath.Join(dir, brokerFile)
	if err := os.WriteFile(path+".new", []byte(use.URL+"\n"+use.Prefix+"\n"), 0o600); err != nil {
		return fmt.Errorf("use broker: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("use broker: %w", err)
	}
	return nil
}

// CheckBroker returns an error if UseBroker can't take a URL. It does no I/O.
func CheckBroker(rawURL string) error {
	scheme, _, _ := strings.Cut(rawURL, "://")
	if kindOf(scheme) == "" {
		return errors.New("it takes the URL of Kafka (kafka://user:password@host:port,host:port), RabbitMQ (rabbitmq://user:password@host:port/vhost), RocketMQ (rocketmq://accesskey:secretkey@host:port,host:port) or NATS (nats://user:password@host:port,host:port); without it the shop brings a broker of its own")
	}
	return dial.CheckBroker(rawURL)
}

// Broker returns the broker that the shop in dir uses.
func Broker(dir string) (BrokerUse, error) {
	path := filepath.Join(dir, brokerFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return BrokerUse{}, nil
	}
	if err != nil {
		return BrokerUse{}, err
	}
	lines := strings.Fields(string(text))
	if len(lines) != 2 || CheckBroker(lines[0]) != nil {
		return BrokerUse{}, fmt.Errorf("%s is not what the shop has written", path)
	}
	return BrokerUse{URL: lines[0], Prefix: lines[1]}, nil
}

// DropBroker removes the topic and the groups that the shop in dir has on a
// broker which is not its own. Nobody may use them any more. After an error
// some may be left, and it may be called again.
func DropBroker(ctx context.Context, dir string) error {
	use, err := Broker(dir)
	if err != nil || use.URL == "" {
		return err
	}
	tap, err := dial.Tap(use.URL)
	if err != nil {
		return err
	}
	return errors.Join(tap.Remove(ctx, use.Topic(), use.Groups()), tap.Close())
}

const rocketMQ = "RocketMQ"

// separator stands between what a shop's names begin with and their rest.
func separator(rawURL string) string {
	if scheme, _, _ := strings.Cut(rawURL, "://"); kindOf(scheme) == rocketMQ {
		return "-" // it knows no dots
	}
	return "."
}

// kindOf is the broker that a URL with this scheme is of, if it is one that
// others use, too.
func kindOf(scheme string) string {
	switch scheme {
	case "kafka":
		return "Kafka"
	case "rabbitmq", "amqp", "amqps":
		return "RabbitMQ"
	case "rocketmq":
		return rocketMQ
	case "nats":
		return "NATS"
	}
	return ""
}

// sameCluster reports whether two URLs have a host in common, and what is behind
// the hosts: the virtual host.
func sameCluster(a, b string) bool {
	kind, hosts, vhost := placeOf(a)
	other, others, otherVhost := placeOf(b)
	return kind == other && vhost == otherVhost && slices.ContainsFunc(hosts, func(host string) bool { return slices.Contains(others, host) })
}

func placeOf(rawURL string) (kind string, hosts []string, vhost string) {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	rest, _, _ = strings.Cut(rest, "?")
	rest = rest[strings.LastIndex(rest, "@")+1:]
	rest, vhost, _ = strings.Cut(rest, "/")
	if vhost == "%2F" || vhost == "%2f" {
		vhost = ""
	}
	return kindOf(scheme), strings.Split(rest, ","), vhost
}

// onTopic has every event published on the shop's topic.
type onTopic struct {
	settle.Outbox[*sql.Tx]
	topic string
}

// Append implements settle.Outbox.
func (o onTopic) Append(ctx context.Context, tx *sql.Tx, events ...*settle.Event) error {
	for _, e := range events {
		e.Topic = o.topic
	}
	return o.Outbox.Append(ctx, tx, events...)
}

// inGroups has consumers join the shop's groups by the names that the broker
// knows them by.
type inGroups struct {
	settle.Broker
	use BrokerUse
}

// Subscribe implements settle.Subscriber.
func (b inGroups) Subscribe(ctx context.Context, s settle.Subscription, sink settle.Sink) error {
	s.Group = b.use.Prefix + s.Group
	return b.Broker.Subscribe(ctx, s, sink)
}
