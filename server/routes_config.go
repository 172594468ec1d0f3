package server

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/internal/configfile"
	"github.com/settlemq/settle/relay"
)

// DefaultBroker is what a route calls the source's broker.
const DefaultBroker = "default"

// RouteConfig is a relay.Route as the file says it.
type RouteConfig struct {
	EventType     string `yaml:"event_type" doc:"pattern of the event type, in which * is any text and ? any character" default:"*"`
	AggregateType string `yaml:"aggregate_type" doc:"pattern of the aggregate type" default:"*"`
	Topic         string `yaml:"topic" doc:"pattern of the topic that the event names" default:"*"`
	// To are the brokers that an event goes to, to each of them.
	To configfile.Texts `yaml:"to" doc:"one of the source's brokers, or default, which is its broker; a list: to each of them" default:"default"`
	As string           `yaml:"as" doc:"the topic there" default:"the event's own"`
}

func (c SourceConfig) relayRoutes() []relay.Route {
	var routes []relay.Route
	for _, r := range c.Routes {
		route := relay.Route{EventType: r.EventType, AggregateType: r.AggregateType, Topic: r.Topic, As: r.As}
		to := r.brokers()
		for i, broker := range to {
			route.Broker, route.Also = broker, i < len(to)-1
			routes = append(routes, route)
		}
	}
	return routes
}

// brokers are those of To by the names that the relay knows.
func (r RouteConfig) brokers() []string {
	if len(r.To) == 0 {
		return []string{""}
	}
	names := make([]string, len(r.To))
	for i, name := range r.To {
		if name != DefaultBroker {
			names[i] = name
		}
	}
	return names
}

// brokers are the source's brokers by name, "" the one of events that no route
// sends elsewhere.
func (c SourceConfig) brokers() map[string]string {
	all := map[string]string{"": c.Broker}
	maps.Copy(all, c.Brokers)
	return all
}

// BrokerNames are the source's brokers in order, first "", which is Broker.
func (c SourceConfig) BrokerNames() []string { return slices.Sorted(maps.Keys(c.brokers())) }

// topicsAt are the topics that are made at a broker at start.
func (c SourceConfig) topicsAt(broker string) []string {
	if broker == "" {
		return c.Topics
	}
	var topics []string
	for _, r := range c.Routes {
		if slices.Contains(r.brokers(), broker) && r.As != "" && !slices.Contains(topics, r.As) {
			topics = append(topics, r.As)
		}
	}
	return topics
}

func isEmbedded(broker string) bool { return broker == "" || broker == BrokerEmbedded }

var brokerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)

func (c SourceConfig) wrongBrokers() *configfile.Wrong {
	if w := wrongBroker("broker", c.Broker); w != nil {
		return w
	}
	for _, name := range c.BrokerNames()[1:] {
		if name == DefaultBroker || !brokerName.MatchString(name) {
			return &configfile.Wrong{Key: "brokers", Got: fmt.Sprintf("naming %q", name), Want: "names of letters, digits, dots, hyphens and underlines, at most 32, and not " + DefaultBroker}
		}
		if c.Brokers[name] == "" {
			return &configfile.Wrong{Key: "brokers." + name, Want: "given: embedded, or a broker's URL"}
		}
		if w := wrongBroker("brokers."+name, c.Brokers[name]); w != nil {
			return w
		}
	}
	for i, r := range c.Routes {
		key := fmt.Sprintf("routes[%d]", i)
		if w := c.wrongTo(key+".to", r.brokers()); w != nil {
			return w
		}
		if strings.Contains(r.As, "@") {
			return &configfile.Wrong{Key: key + ".as", Got: r.As, Want: "without an @, behind which a destination names its broker"}
		}
	}
	return nil
}

func (c SourceConfig) wrongTo(key string, to []string) *configfile.Wrong {
	for i, name := range to {
		switch _, known := c.Brokers[name]; {
		case name != "" && !known:
			return &configfile.Wrong{Key: key, Got: name, Want: "one of brokers, or " + DefaultBroker}
		case slices.Contains(to[:i], name):
			return &configfile.Wrong{Key: key, Got: cmp.Or(name, DefaultBroker) + " twice", Want: "each broker once"}
		}
	}
	return nil
}

func wrongBroker(key, broker string) *configfile.Wrong {
	if isEmbedded(broker) {
		return nil
	}
	if err := dial.CheckBroker(broker); err != nil {
		return &configfile.Wrong{Key: key, Want: "embedded, or a broker's URL: " + withoutText(err, broker)}
	}
	if strings.HasPrefix(broker, "memory:") {
		return &configfile.Wrong{Key: key, Got: "memory:", Want: "one that others can read from"}
	}
	return nil
}
