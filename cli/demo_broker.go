package cli

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/examples/shop"
)

// demoBroker is a demo's broker, and the ways to it.
type demoBroker struct {
	// own is what its process is told; nil: the broker is not the demo's own.
	own []string
	// env is how a role reaches it, through proxy.
	env   []string
	proxy *drill.Proxy
	tap   dial.BrokerTap
	topic string
	// groups are known to a broker that others use before the first event comes.
	groups []string
}

// keptWithin bounds the making of what is kept of a topic; a busy cluster takes
// its time for many queues.
const keptWithin = 5 * time.Minute

// keep has the broker keep all events from now on, for the proof.
func (b demoBroker) keep(ctx context.Context) (forget func() error, err error) {
	if b.own != nil {
		return func() error { return nil }, nil
	}
	ctx, cancel := context.WithTimeout(ctx, keptWithin)
	defer cancel()
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return b.tap.Forget(ctx, b.topic)
	}, b.tap.Keep(ctx, b.topic, b.groups)
}

// openBroker makes the ways to the broker; its own one will listen at port.
func (d *demo) openBroker(dir string, port int) (b demoBroker, err error) {
	if d.broker.url != "" {
		return d.usedBroker(dir)
	}
	at := brokerAt{token: rand.Text(), port: port}
	direct := at.url(at.addr())
	b = demoBroker{own: []string{envBroker + "=" + direct}, topic: settle.DefaultTopic}
	b.proxy, err = drill.OpenProxy(drill.ProxyConfig{
		Target: at.addr(), Witness: textOfNATS,
	})
	if err == nil {
		b.env = []string{envBroker + "=" + at.url(b.proxy.Addr())}
		b.tap, err = dial.Tap(direct)
	}
	return b, err
}

// textOfNATS finds what JetStream answers to a publish.
func textOfNATS() drill.Witness { return &drill.TextWitness{Text: `{"stream":"`} }

// textOfRocketMQ finds what a broker answers to a send.
func textOfRocketMQ() drill.Witness { return &drill.TextWitness{Text: `"queueOffset":`} }

// usedBroker is the one that others use, too: its nodes say where they are, and
// each is reached through the proxy.
func (d *demo) usedBroker(dir string) (b demoBroker, err error) {
	use, err := shop.Broker(dir)
	if err != nil {
		return b, err
	}
	b.topic, b.groups = use.Topic(), use.Groups()
	witness := func() drill.Witness { return &drill.KafkaWitness{} }
	switch {
	case d.broker.nats():
		witness = textOfNATS
	case d.broker.rocket():
		witness = textOfRocketMQ
	case d.broker.rabbit():
		witness = func() drill.Witness { return &drill.AMQPWitness{} }
	}
	if b.proxy, err = drill.OpenProxy(drill.ProxyConfig{Witness: witness}); err != nil {
		return b, err
	}
	b.env = []string{envProxy + "=" + b.proxy.Addr()}
	b.tap, err = dial.Tap(use.URL)
	return b, err
}

// unreachable returns the faults that can't be had with the broker.
func (d *demo) unreachable() (names []string, why string) {
	switch {
	case d.broker.url == "":
		return nil, ""
	case d.broker.encrypted():
		return []string{drill.FaultBrokerStop, drill.FaultLostAck}, "the broker is not the demo's own, and what it answers is encrypted"
	}
	return []string{drill.FaultBrokerStop}, "the broker is not the demo's own"
}

// reachable takes those faults out, or refuses them when they were asked for by
// name.
func (d *demo) reachable() error {
	names, why := d.unreachable()
	out := func(name string) bool { return slices.Contains(names, name) }
	if i := slices.IndexFunc(d.named, out); i >= 0 && d.faults != "" && d.faults != "all" {
		return usagef("--faults: there is no %s with --broker: %s", d.named[i], why)
	}
	d.named = slices.DeleteFunc(slices.Clone(d.named), out)
	return nil
}

// sayBroker says where the events go, if not to a broker of the demo's own, and
// which faults that leaves out.
func (d *demo) sayBroker(b demoBroker) {
	if names, why := d.unreachable(); len(names) > 0 {
		d.screen.say("Events go to the topic %s. Left out, since %s: %s.", b.topic, why, strings.Join(names, ", "))
	}
}
