package rocketmq

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/settlemq/settle"
)

// A message's properties are one text: name, nameEnd, value, valueEnd, and so on.
const (
	nameEnd  = '\x01'
	valueEnd = '\x02'
)

// Properties that brokers, tools and consumers in other languages know.
const (
	propertyKeys = "KEYS"
	propertyTags = "TAGS"
	// propertyID is what Java's consumers show as the message's id: the same on
	// every retry.
	propertyID = "UNIQ_KEY"
	// The key, by the name of clients of the remoting protocol and by that of those
	// which speak gRPC.
	propertySharding    = "SHARDING_KEY"
	propertyShardingNew = "__SHARDINGKEY"
	propertyWait        = "WAIT"
)

// headerExact carries, as a JSON object, the headers of an event that the broker
// would act on, or would not keep as they are.
const headerExact = "settle-exact-headers"

// serversOwn are properties that a broker or a client's library acts on, or
// writes.
var serversOwn = []string{
	propertyKeys, propertyTags, propertyID, propertySharding, propertyShardingNew, propertyWait,
	"DELAY", "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID", "TRAN_MSG", "PGROUP", "MIN_OFFSET", "MAX_OFFSET", "BUYER_ID",
	"ORIGIN_MESSAGE_ID", "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "RECONSUME_TIME", "MSG_REGION", "TRACE_ON",
	"MAX_RECONSUME_TIMES", "CONSUME_START_TIME", "TRAN_PREPARED_QUEUE_OFFSET", "TRANSACTION_CHECK_TIMES",
	"CHECK_IMMUNITY_TIME_IN_SECONDS", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "ARRIVE_TIME", "MSG_TYPE", "CLUSTER",
	"INSTANCE_ID", "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET", "INNER_NUM", "INNER_BASE", "DUP_INFO", "POP_CK",
	"POP_CK_OFFSET", "1ST_POP_TIME", "EXTEND_UNIQ_INFO", "TRACE_CONTEXT", "REQ_T", "PUSH_REPLY_TIME", "REDIRECT",
	"FORWARD_QUEUE_ID", "MESSAGE_TYPE", "TRANSACTION_PREPARED_QUEUE_OFFSET", "KV_SEP", "DLQ_ORIGIN_TOPIC",
	"DLQ_ORIGIN_MESSAGE_ID", "BORN_HOST", "BORN_TIMESTAMP", "CRC32#", "LMQ_DISPATCH", "DEAD_LETTER", "BATCH",
	"KEEP_ALIVE", "STARTDELIVERTIME",
}

// isServers names properties that are no headers of an event.
func isServers(name string) bool {
	return strings.HasPrefix(name, "TIMER_") || strings.HasPrefix(name, "__") || strings.HasPrefix(name, "rocketmq.") || slices.Contains(serversOwn, name)
}

// appendProperties appends headers of m, and what RocketMQ's tools find it by.
func appendProperties(dst []byte, m settle.Message, pairs [][2]string) []byte {
	e := m.Event
	dst = appendProperty(dst, propertyID, m.ID)
	dst = appendProperty(dst, propertyKeys, keysOf(e))
	if isTag(e.Type) {
		dst = appendProperty(dst, propertyTags, e.Type)
	}
	dst = appendProperty(dst, propertySharding, e.Key())
	dst = appendProperty(dst, propertyShardingNew, e.Key())
	var exact map[string]string
	for _, p := range pairs {
		if isServers(p[0]) || p[1] == "" || hasControl(p[0]) || hasControl(p[1]) {
			if exact == nil {
				exact = map[string]string{}
			}
			exact[p[0]] = p[1]
			continue
		}
		dst = appendProperty(dst, p[0], p[1])
	}
	if exact != nil {
		if packed, err := json.Marshal(exact); err == nil { // a map of strings always is
			dst = appendProperty(dst, headerExact, string(packed))
		}
	}
	return dst
}

func appendProperty(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, name...)
	dst = append(dst, nameEnd)
	dst = append(dst, value...)
	return append(dst, valueEnd)
}

// keysOf returns what an event can be found by: its id and its second key. A key
// with a space in it would be several.
func keysOf(e *settle.Event) string {
	keys := make([]string, 0, 3)
	for _, k := range []string{e.ID, e.AggregateID, e.BizKey} {
		if k != "" && !strings.ContainsAny(k, " \t") && !hasControl(k) && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return strings.Join(keys, " ")
}

// isTag reports whether consumers can filter by a text: || and * mean something
// there.
func isTag(text string) bool {
	return text != "" && !strings.ContainsAny(text, "| *\t") && !hasControl(text)
}

func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r == 0x7f })
}

// decodeProperties returns all properties of a message.
func decodeProperties(text string) map[string]string {
	properties := map[string]string{}
	for pair := range strings.SplitSeq(text, string(valueEnd)) {
		if name, value, is := strings.Cut(pair, string(nameEnd)); is {
			properties[name] = value
		}
	}
	return properties
}

// headersOf returns those of a message's properties that are headers of an event.
func headersOf(properties map[string]string) map[string]string {
	headers := make(map[string]string, len(properties))
	for name, value := range properties {
		if !isServers(name) && name != headerExact {
			headers[name] = value
		}
	}
	if packed, is := properties[headerExact]; is {
		var exact map[string]string
		if json.Unmarshal([]byte(packed), &exact) == nil {
			for name, value := range exact {
				headers[name] = value
			}
		}
	}
	return headers
}

// keyOf returns the key of a message, of whatever producer.
func keyOf(properties map[string]string) string {
	for _, name := range []string{settle.HeaderAggregateID, propertySharding, propertyShardingNew, propertyKeys} {
		if key := properties[name]; key != "" {
			return key
		}
	}
	return ""
}
