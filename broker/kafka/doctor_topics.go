package kafka

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/doctor"
)

// Settings of a topic that say which records it takes and keeps.
const (
	settingKeepBytes = "retention.bytes"
	settingTimes     = "message.timestamp.type"
	settingBehind    = "message.timestamp.before.max.ms"
	settingAhead     = "message.timestamp.after.max.ms"
)

func topicSettings() []string {
	return []string{settingInSync, settingUnclean, settingCleanup, settingKeepFor, settingKeepBytes, settingMaxBytes, settingTimes, settingBehind, settingAhead}
}

const (
	// largestRecord is what an outbox may hand over: its key and the headers that
	// Settle adds are within the overhead.
	largestRecord = settle.MaxEnvelope + settle.MaxHeaders + recordOverhead
	// clocksDiffer is how far apart clocks may be without a record being refused.
	clocksDiffer = 10 * time.Minute
)

func (x *examination) topicChecks() []check {
	return []check{
		{"retention", "what is older is gone, read or not: a consumer that was away for longer has lost it, and it can't be replayed", x.retention},
		{"cleanup_policy", "compaction keeps the last record of a key and takes the events before it", x.cleanup},
		{"max_message_bytes", "an outbox accepts events up to a size; one that the broker refuses becomes a dead letter and holds its key", x.maxBytes},
		{"timestamps", "a record whose time is too far from the broker's clock is refused for good", x.timestamps},
		{"partition_count", "each is read by one consumer of a group at a time", x.partitions},
	}
}

func (x *examination) retention() (doctor.Diagnosis, error) {
	return x.each(func(t topicSeen, p *doctor.Problems) error {
		policy, err := t.text(settingCleanup)
		if err != nil {
			return err
		}
		if !strings.Contains(policy, "delete") {
			return nil
		}
		ms, err := t.number(settingKeepFor)
		if err != nil {
			return err
		}
		size, err := t.number(settingKeepBytes)
		if err != nil {
			return err
		}
		if want := x.cfg.KeepFor.Milliseconds(); ms >= 0 && ms < want {
			p.Add(doctor.Bad, t.name, fmt.Sprintf("records are kept for %s, and must be readable for %s", span(time.Duration(ms)*time.Millisecond), span(x.cfg.KeepFor)), x.tools.set(t.name, settingKeepFor, strconv.FormatInt(want, 10)))
		}
		if size >= 0 {
			p.Add(doctor.Warn, t.name, fmt.Sprintf("each partition keeps %d bytes, however young the rest is", size), x.tools.set(t.name, settingKeepBytes, "-1"))
		}
		return nil
	}, "records are kept for %s or longer", span(x.cfg.KeepFor))
}

func (x *examination) cleanup() (doctor.Diagnosis, error) {
	return x.each(func(t topicSeen, p *doctor.Problems) error {
		policy, err := t.text(settingCleanup)
		if err == nil && strings.Contains(policy, "compact") {
			p.Add(doctor.Bad, t.name, policy, x.tools.set(t.name, settingCleanup, "delete"))
		}
		return err
	}, "no topic is compacted")
}

func (x *examination) maxBytes() (doctor.Diagnosis, error) {
	return x.each(func(t topicSeen, p *doctor.Problems) error {
		n, err := t.number(settingMaxBytes)
		if err == nil && n < largestRecord {
			p.Add(doctor.Bad, t.name, fmt.Sprintf("%d bytes, the largest event takes %d unless it can be compressed", n, largestRecord), x.tools.set(t.name, settingMaxBytes, strconv.Itoa(Config{}.withDefaults().MaxRecordBytes+recordOverhead)))
		}
		return err
	}, "the largest event has room")
}

func (x *examination) timestamps() (doctor.Diagnosis, error) {
	return x.each(func(t topicSeen, p *doctor.Problems) error {
		kind, err := t.text(settingTimes)
		if err != nil || kind != "CreateTime" {
			return err
		}
		for _, setting := range []string{settingBehind, settingAhead} {
			// Clusters before 3.6 have neither.
			ms, err := t.number(setting)
			if err == nil && ms >= 0 && ms < clocksDiffer.Milliseconds() {
				p.Add(doctor.Warn, t.name, fmt.Sprintf("records are refused when the publisher's clock differs by %s", time.Duration(ms)*time.Millisecond), x.tools.set(t.name, setting, strconv.FormatInt(time.Hour.Milliseconds(), 10)))
			}
		}
		return nil
	}, "clocks may differ by %s or more", clocksDiffer)
}

func (x *examination) partitions() (doctor.Diagnosis, error) {
	return x.each(func(t topicSeen, p *doctor.Problems) error {
		if len(t.partitions) == 1 {
			p.Add(doctor.Warn, t.name, "one partition: a second consumer of a group has nothing to do", "while it is empty: kafka-topics.sh "+x.tools.at+" --alter --topic "+t.name+" --partitions 12; with records in it keys would move and lose their order: make a new topic")
		}
		return nil
	}, "several")
}
