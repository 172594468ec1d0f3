package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
)

// refusals are a broker's word on records. It speaks of a whole batch although
// one record of it may be the only one to blame, and nothing of it is held.
var refusals = []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp}

// classify says how much an error of a broker call speaks of.
func classify(err error) *settle.PublishError {
	var known *settle.PublishError
	switch {
	case errors.As(err, &known):
		return known
	case isAny(err, refusals...):
		return &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(err)}
	// Not one of these is the record's fault, and other topics may go on. Too few
	// replicas in sync: nothing was appended.
	case isAny(err, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed,
		kerr.PolicyViolation, kerr.NotEnoughReplicas, kerr.InvalidConfig, kerr.KafkaStorageError):
		return &settle.PublishError{Scope: settle.ScopeTopic, Err: explainTopic(err)}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrRecordTimeout):
		err = fmt.Errorf("no answer in time, the outcome is unknown: %w", err)
	}
	return &settle.PublishError{Scope: settle.ScopeBroker, Err: err}
}

// explainTopic says what to look at, where Kafka's word does not.
func explainTopic(err error) error {
	switch {
	case isAny(err, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID):
		return fmt.Errorf("the topic does not exist, or this user may not see it: %w", err)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("this user may not write to the topic; kafka-acls.sh --add --producer --topic gives the right: %w", err)
	}
	return err
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
