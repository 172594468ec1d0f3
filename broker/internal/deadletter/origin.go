package deadletter

import "encoding/json"

// HeaderOrigin tells of a message that went back to one group only where it came
// from at first: should it die again, the broker and the consumer know only
// where they had it from.
const HeaderOrigin = "settle-origin"

// Origin is a place as HeaderOrigin holds it.
type Origin struct {
	Topic      string `json:"topic,omitempty"`
	Partition  int    `json:"partition,omitempty"`
	Offset     int64  `json:"offset,omitempty"`
	Exchange   string `json:"exchange,omitempty"`
	RoutingKey string `json:"routing_key,omitempty"`
}

// String is the header's value.
func (o Origin) String() string {
	b, err := json.Marshal(o)
	if err != nil { // texts and numbers always can be
		return ""
	}
	return string(b)
}

// ParseOrigin reads the header. It reports false for what is none.
func ParseOrigin(s string) (Origin, bool) {
	var o Origin
	if s == "" || json.Unmarshal([]byte(s), &o) != nil {
		return Origin{}, false
	}
	o.Topic, o.Exchange, o.RoutingKey = Text(o.Topic), Text(o.Exchange), Text(o.RoutingKey)
	return o, o != Origin{}
}
