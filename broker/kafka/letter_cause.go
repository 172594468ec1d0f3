package kafka

import (
	"math/big"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/internal/deadletter"
)

// Headers of Spring Kafka's DeadLetterPublishingRecoverer, and those that it
// writes for @RetryableTopic.
const (
	dltTopic, retryTopic           = "kafka_dlt-original-topic", "kafka_original-topic"
	dltPartition, retryPartition   = "kafka_dlt-original-partition", "kafka_original-partition"
	dltOffset, retryOffset         = "kafka_dlt-original-offset", "kafka_original-offset"
	dltTime, retryTime             = "kafka_dlt-original-timestamp", "kafka_original-timestamp"
	dltException, retryException   = "kafka_dlt-exception-fqcn", "kafka_exception-fqcn"
	dltCause, retryCause           = "kafka_dlt-exception-cause-fqcn", "kafka_exception-cause-fqcn"
	dltMessage, retryMessage       = "kafka_dlt-exception-message", "kafka_exception-message"
	dltTrace, retryTrace           = "kafka_dlt-exception-stacktrace", "kafka_exception-stacktrace"
	dltKey, retryKey               = "kafka_dlt-key-exception-fqcn", "kafka_key-exception-fqcn"
	dltKeyMessage, retryKeyMessage = "kafka_dlt-key-exception-message", "kafka_key-exception-message"
	dltKeyTrace, retryKeyTrace     = "kafka_dlt-key-exception-stacktrace", "kafka_key-exception-stacktrace"
	// dltGroup has the same name for both.
	dltGroup         = "kafka_dlt-original-consumer-group"
	attemptsComing   = "retry_topic-attempts"
	attemptsMade     = "kafka_deliveryAttempt"
	retryFirst       = "retry_topic-original-timestamp"
	retryDue         = "retry_topic-backoff-timestamp"
	deserializeKey   = "springDeserializerExceptionKey"
	deserializeValue = "springDeserializerExceptionValue"
)

// cause reads what Spring writes of a death. What died several times may have a
// header several times, the oldest first. Anybody could have written them.
type cause struct{ headers []kgo.RecordHeader }

func (c cause) last(name string) string {
	for i := len(c.headers) - 1; i >= 0; i-- {
		if c.headers[i].Key == name {
			return string(c.headers[i].Value)
		}
	}
	return ""
}

func (c cause) first(name string) string {
	for _, h := range c.headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// either is the first of some headers that is there.
func (c cause) either(names ...string) string {
	for _, name := range names {
		if v := c.last(name); v != "" {
			return v
		}
	}
	return ""
}

// origin is where the consumer had the record from at first, before it went back
// to its group only.
func (c cause) origin() bridge.Place {
	if o, is := deadletter.ParseOrigin(c.last(deadletter.HeaderOrigin)); is {
		return bridge.Place{Topic: o.Topic, Partition: o.Partition, Offset: o.Offset}
	}
	names := [3]string{retryTopic, retryPartition, retryOffset}
	if c.first(retryTopic) == "" {
		names = [3]string{dltTopic, dltPartition, dltOffset}
	}
	from := bridge.Place{Topic: deadletter.Text(c.first(names[0]))}
	if n, is := whole(c.first(names[1]), 4); is {
		from.Partition = int(n)
	}
	if n, is := whole(c.first(names[2]), 8); is {
		from.Offset = n
	}
	return from
}

// exception is what the listener has thrown. Spring wraps it.
func (c cause) exception() string {
	class := c.either(dltException, retryException, dltKey, retryKey)
	if inner := c.either(dltCause, retryCause); inner != "" && deadletter.IsWrapper(class) {
		return inner
	}
	return class
}

// attempts are those that were made, where the consumer counts them:
// @RetryableTopic counts the next one, too.
func (c cause) attempts() int {
	coming := c.last(attemptsComing)
	if n, is := whole(coming, len(coming)); is && n > 1 {
		return int(n - 1)
	}
	n, _ := whole(c.last(attemptsMade), 4)
	return int(max(n, 0))
}

// whole reads a number that Java has written, in so many bytes.
func whole(b string, size int) (int64, bool) {
	if len(b) != size || size == 0 || size > 8 {
		return 0, false
	}
	n := new(big.Int).SetBytes([]byte(b))
	if b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	return n.Int64(), true
}

// told is a header as text.
func told(h kgo.RecordHeader) string {
	size := 0
	switch h.Key {
	case dltPartition, retryPartition, attemptsMade:
		size = 4
	case dltOffset, retryOffset, dltTime, retryTime:
		size = 8
	case attemptsComing, retryFirst, retryDue:
		size = len(h.Value)
	}
	if n, is := whole(string(h.Value), size); is {
		return big.NewInt(n).String()
	}
	return deadletter.Text(string(h.Value))
}

// isOfDeath names the headers that a record has because it died, and ours of the
// last return.
func isOfDeath(name string) bool {
	switch name {
	case attemptsMade, deserializeKey, deserializeValue, bridge.HeaderReturn, deadletter.HeaderOrigin:
		return true
	}
	for _, prefix := range []string{"kafka_dlt-", "kafka_original-", "kafka_exception-", "kafka_key-exception-", "retry_topic-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
