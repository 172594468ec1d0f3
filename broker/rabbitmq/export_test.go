package rabbitmq

// QueuesForTest names all queues of a topic's groups.
func QueuesForTest(topic string, groups []string, partitions int) []string {
	var names []string
	for _, g := range groups {
		names = append(names, deadName(topic, g), membersName(topic, g))
		for n := range partitions {
			names = append(names, queueName(topic, g, n))
		}
	}
	return names
}
