package cli

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/examples/shop"
	"github.com/settlemq/settle/server"
)

// shopBroker is the broker that --broker names for a shop, if any.
type shopBroker struct{ text, url string }

const brokerUsage = "broker for the shop's events, as kafka://user:password@host:port,host:port rabbitmq://user:password@host:port/vhost\n" +
	"rocketmq://accesskey:secretkey@host:port,host:port or nats://user:password@host:port,host:port; topic and consumer groups have names of their own; ${NAME} and ${file:/path} in it are replaced (default: a broker of the shop's own)"

// check looks at what was named. It asks no broker.
func (b *shopBroker) check() error {
	if b.text == "" {
		return nil
	}
	at, err := server.Expand(b.text)
	if err == nil {
		err = shop.CheckBroker(at)
	}
	if err != nil {
		return usagef("--broker: %w", err)
	}
	b.url = at
	return nil
}

// use notes it in a shop's directory, once it has answered.
func (b *shopBroker) use(ctx context.Context, dir string) error {
	if b.url == "" {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tap, err := dial.Tap(b.url)
	if err == nil {
		err = errors.Join(tap.Ready(asking), tap.Close())
	}
	if err != nil {
		return unreachablef("--broker: it does not answer: %w", b.hide(err))
	}
	err = shop.UseBroker(dir, b.url)
	switch {
	case errors.Is(err, shop.ErrOtherBroker):
		return usagef("--broker: %w; leave --broker out, or name another directory", b.hide(err))
	case err != nil:
		return unreachablef("%w", b.hide(err))
	}
	return nil
}

// encrypted reports whether nobody in between can read what is said.
func (b *shopBroker) encrypted() bool {
	_, query, _ := strings.Cut(b.url, "?")
	options, err := url.ParseQuery(query)
	if strings.HasPrefix(b.url, "amqps://") && !options.Has("tls") {
		return true
	}
	return err == nil && options.Get("tls") == "true"
}

// rabbit reports whether it is RabbitMQ.
func (b *shopBroker) rabbit() bool { return b.url != "" && !b.kafka() && !b.nats() && !b.rocket() }

func (b *shopBroker) kafka() bool  { return strings.HasPrefix(b.url, "kafka://") }
func (b *shopBroker) nats() bool   { return strings.HasPrefix(b.url, "nats://") }
func (b *shopBroker) rocket() bool { return strings.HasPrefix(b.url, "rocketmq://") }

// hosts are the nodes that the URL names.
func (b *shopBroker) hosts() []string {
	if b.url == "" {
		return nil
	}
	return hostsOfURL(b.url)
}

func hostsOfURL(rawURL string) []string {
	_, rest, whole := strings.Cut(rawURL, "://")
	if !whole {
		rest = rawURL // host:port alone
	}
	rest, _, _ = strings.Cut(rest, "?")
	rest = rest[strings.LastIndex(rest, "@")+1:]
	rest, _, _ = strings.Cut(rest, "/")
	return strings.Split(rest, ",")
}

// hide takes the password out of an error.
func (b *shopBroker) hide(err error) error {
	return server.Config{Sources: map[string]server.SourceConfig{"": {Broker: b.url}}}.HideError(err)
}
