package relay

import "strings"

// DestinationName is how a topic of a broker is called in side tables,
// checkpoints, dead letters, pauses and limits of rates: the topic alone at the
// default broker, topic@broker at another.
func DestinationName(broker, topic string) string {
	if broker == "" && !strings.Contains(topic, "@") {
		return topic
	}
	return topic + "@" + broker
}

// splitName is the reverse of DestinationName.
func splitName(name string) (broker, topic string) {
	i := strings.LastIndexByte(name, '@')
	if i < 0 {
		return "", name
	}
	return name[i+1:], name[:i]
}
