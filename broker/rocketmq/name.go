package rocketmq

import (
	"fmt"
	"strings"
)

// maxName is how long a topic's name may be; a group's may be longer, but its
// %RETRY% topic is one too.
const maxName = 127

// systemTopics belong to the broker: it refuses or moves what is sent there.
var systemTopics = []string{"TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "OFFSET_MOVED_EVENT", "SELF_TEST_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"}

// badTopic says why a name can't be that of a topic for events; it is empty when
// it can.
func badTopic(name string) string {
	if why := badName("topic", name, maxName); why != "" {
		return why
	}
	if strings.HasPrefix(name, "rmq_sys_") || strings.HasPrefix(name, "RMQ_SYS_") {
		return fmt.Sprintf("topic %q is one of the broker's own: their names begin with rmq_sys_", name)
	}
	for _, own := range systemTopics {
		if name == own {
			return fmt.Sprintf("topic %q is one of the broker's own", name)
		}
	}
	if strings.HasPrefix(name, "%RETRY%") || strings.HasPrefix(name, "%DLQ%") {
		return fmt.Sprintf("topic %q is one that the broker makes for a group's failed messages", name)
	}
	return ""
}

func badGroup(name string) string { return badName("group", name, maxName-len("%RETRY%")) }

func badName(what, name string, limit int) string {
	if name == "" {
		return "a " + what + " has no name"
	}
	if len(name) > limit {
		return fmt.Sprintf("%s %q has a name of %d bytes, and RocketMQ takes %d", what, name, len(name), limit)
	}
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-%|", c) >= 0 {
			continue
		}
		return fmt.Sprintf("%s %q can't be a name on RocketMQ, which takes letters, digits, _ - %% and | (no dots); choose another name", what, name)
	}
	return ""
}
