package rocketmq

// Topics of a consumer group's failed messages, which RocketMQ names.
const (
	retryPrefix = "%RETRY%"
	deadPrefix  = "%DLQ%"
)
